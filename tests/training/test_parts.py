"""Normalisers, stagger modes and the reset-phase meter."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.envs.functional import start
from rollshape.envs.registry import make
from rollshape.training.loop import phase_entropy
from rollshape.training.normaliser import no_moments, normalise, scale, with_batch
from rollshape.training.stagger import staggered
from rollshape.training.streams import stream_key


def test_moments_of_batches_are_those_of_all_samples() -> None:
    chance = np.random.default_rng(0)
    batches = [
        chance.normal(3, 2, size=(5, 7, 4)),
        chance.normal(-1, 1, size=(50, 2, 4)),
        chance.normal(size=(1, 1, 4)),
    ]
    moments = no_moments((4,))
    for batch in batches:
        moments = with_batch(moments, jnp.asarray(batch, jnp.float32))
    everything = np.concatenate([batch.reshape(-1, 4) for batch in batches])
    np.testing.assert_allclose(moments.mean, everything.mean(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(moments.variance, everything.var(0), rtol=1e-3)
    seen = np.asarray(normalise(moments, jnp.asarray(everything, jnp.float32)))
    np.testing.assert_allclose(seen.std(0), 1, atol=0.01)


def test_a_scaled_reward_keeps_its_sign() -> None:
    moments = with_batch(no_moments(()), jnp.array([100.0, 300.0]))
    assert scale(moments, jnp.array([-50.0, 50.0])).tolist() == pytest.approx([-0.5, 0.5], rel=1e-2)


def test_the_reset_phase_meter() -> None:
    assert float(phase_entropy(jnp.full((8, 64), 7), 500)) == pytest.approx(0)
    assert float(phase_entropy(jnp.arange(512).reshape(8, 64), 512)) == pytest.approx(1)
    assert float(phase_entropy(jnp.array([[0] * 32 + [300] * 32]), 500)) == pytest.approx(
        np.log(2) / np.log(16), rel=1e-5
    )


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_stagger_modes(name: str) -> None:
    env = make(name)
    fresh = jax.vmap(partial(start, env))(jax.random.split(jax.random.key(0), 64))
    assert staggered("none", env, fresh, jax.random.key(1)) is fresh
    counted = staggered("counter", env, fresh, jax.random.key(1))
    np.testing.assert_array_equal(counted.observation, fresh.observation)
    assert int(counted.steps.max()) > 0.8 * env.horizon
    burnt = jax.jit(lambda episodes: staggered("burn-in", env, episodes, jax.random.key(1)))(fresh)
    assert int(burnt.steps.max()) < env.horizon
    assert len(np.unique(np.asarray(burnt.steps))) > 16
    assert not np.allclose(burnt.observation, fresh.observation)


def test_streams_do_not_shift_each_other() -> None:
    keys = {
        (stream, index): tuple(jax.random.key_data(stream_key(3, stream, index)).tolist())
        for stream in ("init", "env", "policy", "shuffle", "eval")
        for index in range(50)
    }
    assert len(set(keys.values())) == 250
    carried = stream_key(jnp.asarray(3, jnp.uint32), "policy", jnp.asarray(7))
    assert tuple(jax.random.key_data(carried).tolist()) == keys["policy", 7]
