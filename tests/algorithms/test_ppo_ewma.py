"""PPO-EWMA: its loss, its moving averages and its adjustments, each against arithmetic worked out by hand."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from rollshape.agents.losses import ppo_policy_loss
from rollshape.agents.normalizer import Moments
from rollshape.algorithms.ppo_ewma import PPOEWMA, adjusted_settings, decoupled_policy_loss
from rollshape.algorithms.registry import new_algorithm
from rollshape.envs.spaces import Discrete, Observation
from rollshape.errors import RequestError
from rollshape.training.reproduce import reproduce
from rollshape.training.run import train
from rollshape.training.setup import new_driver, plan_run
from rollshape.training.spec import Spec, checked_spec

SMALL: dict[str, Any] = {
    "env": "CartPole-v1", "algo": "ppo-ewma", "num_envs": 8, "num_steps": 16, "num_minibatches": 2, "num_epochs": 2,
    "hidden_sizes": (8,), "total_timesteps": 8 * 16 * 6, "learning_rate": 3e-3,
}  # fmt: skip


def test_with_the_behavior_policy_as_proximal_policy_the_loss_is_ppos() -> None:
    rng = np.random.default_rng(0)
    new, old, advantages = (jnp.asarray(rng.normal(size=64), jnp.float32) for _ in range(3))
    mine, ppo = decoupled_policy_loss(new, old, old, advantages, 0.2), ppo_policy_loss(new, old, advantages, 0.2)
    for a, b in zip(mine, ppo, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_the_decoupled_loss_by_hand() -> None:
    """π = .5, π_prox = .4, π_behavior = .8: r_p = 1.25 is clipped to 1.2, and π_prox/π_behavior = .5."""
    logs = [jnp.log(jnp.array([p])) for p in (0.5, 0.4, 0.8)]
    assert float(decoupled_policy_loss(*logs, jnp.array([2.0]), 0.2).loss[0]) == pytest.approx(-1.2 * 0.5 * 2)
    assert float(decoupled_policy_loss(*logs, jnp.array([-2.0]), 0.2).loss[0]) == pytest.approx(0.625 * 2)
    assert float(decoupled_policy_loss(*logs, jnp.array([2.0]), 0.2).clipped[0]) == 1.0


def test_settings_for_a_rollout_four_times_as_large() -> None:
    """Center of mass 8 → 2, β = 2/3; Adam's step × 2; five updates of advantages → 1.25."""
    spec = Spec(algo="ppo-ewma", learning_rate=1e-3, proximal_decay=8 / 9, advantage_decay=0.8)
    adjusted, betas = adjusted_settings(spec, 4.0, 4.0)
    assert adjusted.learning_rate == pytest.approx(2e-3)
    assert adjusted.proximal_decay == pytest.approx(2 / 3)
    assert adjusted.advantage_decay == pytest.approx(0.2)
    assert betas == pytest.approx((0.9**4, 0.999**4))
    same, _ = adjusted_settings(spec, 1.0, 1.0)
    assert same.proximal_decay == pytest.approx(8 / 9)
    smaller, _ = adjusted_settings(spec, 0.25, 0.25)
    assert smaller.proximal_decay == pytest.approx(32 / 33)


def new(**changes: Any) -> PPOEWMA:
    spec = Spec(**{**SMALL, **changes})
    algorithm = new_algorithm(spec, spec.plan(), Observation((4,)), Discrete(2))
    assert isinstance(algorithm, PPOEWMA)
    return algorithm


def test_the_reference_size_decides_the_adjustment(tmp_path: Path) -> None:
    """A rollout of 128 in two minibatches, tuned at 32: both are four times as large."""
    algorithm = new(reference_rollout_size=32)
    assert algorithm.spec.learning_rate == pytest.approx(3e-3 * 2)
    assert algorithm.adam_betas == pytest.approx((0.9**4, 0.999**4))
    assert new().spec.learning_rate == pytest.approx(3e-3)
    fixed = new(reference_rollout_size=32, num_minibatches=None, minibatch_size=16)  # only the rollout grows
    assert fixed.spec.learning_rate == pytest.approx(3e-3)
    run = train(out=tmp_path / "run", **{**SMALL, "reference_rollout_size": 32})
    derived = json.loads((run.path / "run.json").read_text())["derived_settings"]
    assert derived["learning_rate"] == pytest.approx(6e-3)


def test_moments_of_advantages_are_averaged_by_samples() -> None:
    algorithm = new(advantage_decay=0.5)
    first, second = Moments(1.0, 2.0, 10.0), Moments(3.0, 4.0, 10.0)
    average = algorithm.average_moments(algorithm.average_moments(Moments(0.0, 0.0, 0.0), first), second)  # type: ignore[arg-type]
    mean = (5 * 1 + 10 * 3) / 15
    assert float(average.mean) == pytest.approx(mean)
    assert float(average.variance) == pytest.approx((5 * (2 + 1) + 10 * (4 + 9)) / 15 - mean**2)


def vector(network: Any) -> np.ndarray:
    return np.asarray(ravel_pytree(jax.device_get(network))[0], np.float64)


def test_the_proximal_policy_is_the_weighted_mean_of_all_parameters() -> None:
    """One gradient step per update: p_n = Σ β^(n−k)·θ_k / Σ β^(n−k)."""
    spec = Spec(**{**SMALL, "num_minibatches": 1, "num_epochs": 1, "proximal_decay": 0.5})
    driver = new_driver(spec, plan_run(spec))
    state = driver.start()
    history = [vector(state.learner.network)]
    for _ in range(4):
        state, _, _ = driver.advance(state, 1)
        history.append(vector(state.learner.network))
    weights = 0.5 ** np.arange(4, -1, -1)
    expected = (weights[:, None] * np.stack(history)).sum(0) / weights.sum()
    np.testing.assert_allclose(vector(state.learner.proximal), expected, atol=1e-6)
    assert not np.allclose(vector(state.learner.proximal), history[-1], atol=1e-6)


def test_it_trains_and_repeats(tmp_path: Path) -> None:
    run = train(out=tmp_path / "run", **SMALL)
    assert run.status == "done"
    assert 0 < run.metrics[-1]["ratio_ess"] <= 1
    comparison = reproduce(run.path)
    assert comparison.same, comparison.difference


@pytest.mark.parametrize("changes", [{"proximal_decay": 1.0}, {"advantage_decay": -0.1}], ids=str)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=next(iter(changes))):
        checked_spec(**{**SMALL, **changes})
