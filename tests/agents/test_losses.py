import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.agents.losses import (
    clipped_value_loss,
    policy_gradient_loss,
    ppo_policy_loss,
    value_loss,
)


def test_ppo_by_hand() -> None:
    # r = 1, 2, ½ with A = 1, 1, −1 and ε = .2: min(1, 1) = 1; min(2, 1.2) = 1.2; min(−.5, −.8) = −.8
    ratio, advantages = jnp.array([1.0, 2.0, 0.5]), jnp.array([1.0, 1.0, -1.0])
    seen = ppo_policy_loss(jnp.log(ratio), jnp.zeros(3), advantages, 0.2)
    assert float(seen.loss.mean()) == pytest.approx(-(1 + 1.2 - 0.8) / 3)
    assert float(seen.clipped.mean()) == pytest.approx(2 / 3)
    assert float(seen.approx_kl.mean()) == pytest.approx(float(((ratio - 1) - jnp.log(ratio)).mean()))
    np.testing.assert_allclose(seen.ratio, ratio, rtol=1e-6)


def test_at_ratio_one_ppos_gradient_is_the_policy_gradient() -> None:
    advantages = jnp.array([0.5, -1.0, 2.0])
    old = jnp.array([-0.3, -0.7, -1.2])
    ppo = jax.grad(lambda log_prob: ppo_policy_loss(log_prob, old, advantages, 0.2).loss.sum())(old)
    np.testing.assert_allclose(ppo, jax.grad(lambda x: policy_gradient_loss(x, advantages).sum())(old), rtol=1e-6)
    same = ppo_policy_loss(old, old, advantages, 0.2)
    assert same.approx_kl.tolist() == [0, 0, 0]
    assert same.ratio.tolist() == [1, 1, 1]


def test_beyond_the_clip_there_is_no_gradient() -> None:
    slope = jax.grad(lambda log_prob: ppo_policy_loss(log_prob, jnp.zeros(2), jnp.array([1.0, -1.0]), 0.2).loss.sum())
    assert slope(jnp.log(jnp.array([1.5, 0.5]))).tolist() == [0.0, 0.0]  # both have gone far enough
    assert (slope(jnp.log(jnp.array([0.5, 1.5]))) != 0).all()  # both went the wrong way and are called back


def test_value_losses_by_hand() -> None:
    values, old, returns = jnp.array([3.0, 1.0]), jnp.array([1.0, 1.0]), jnp.array([4.0, 0.0])
    assert value_loss(values, returns).tolist() == [1.0, 1.0]
    # clipped: V = 1.5 → (1.5 − 4)² = 6.25 > 1; second unchanged: 1
    assert clipped_value_loss(values, old, returns, 0.5).tolist() == [6.25, 1.0]
