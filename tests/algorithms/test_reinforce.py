"""REINFORCE's returns against a plain loop, and their gradients against the exact one."""

import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.agents.returns import episode_returns
from rollshape.algorithms.a2c import A2CInfo
from rollshape.algorithms.base import Rollout
from rollshape.algorithms.registry import new_algorithm
from rollshape.algorithms.reinforce import Reinforce
from rollshape.envs.spaces import Discrete, Observation
from rollshape.training.spec import Spec


def test_the_return_of_an_episode_is_that_of_its_first_step_here() -> None:
    to_go = jnp.array([5.0, 4.0, 1.0, 9.0, 7.0, 3.0])
    ended = jnp.array([False, False, True, False, True, False])
    assert episode_returns(to_go, ended).tolist() == [5.0, 5.0, 5.0, 9.0, 9.0, 3.0]


def reinforce(**changes: str) -> Reinforce:
    spec = Spec(algo="reinforce", num_envs=4, num_steps=6, gamma=1.0, **changes)  # type: ignore[arg-type]
    algorithm = new_algorithm(spec, spec.plan(), Observation((1,)), Discrete(2))
    assert isinstance(algorithm, Reinforce)
    return algorithm


def bandit_rollout(seed: int, envs: int, steps: int, chance: float) -> Rollout:
    """Episodes of three steps; the reward of a step is its action, 1 with the given chance."""
    rng = np.random.default_rng(seed)
    action = (rng.random((steps, envs)) < chance).astype(np.int32)
    ended = np.broadcast_to((np.arange(steps) % 3 == 2)[:, None], (steps, envs))
    zero = jnp.zeros((steps, envs))
    return Rollout(
        observation=zero, action=jnp.asarray(action), reward=jnp.asarray(action, jnp.float32),
        terminated=jnp.asarray(ended), truncated=jnp.zeros((steps, envs), bool), steps=zero, episode_return=zero,
        episode_length=zero, value=zero, final_value=zero, last_value=jnp.zeros(envs),
    )  # fmt: skip


@pytest.mark.parametrize("baseline", ["none", "mean"])
def test_both_returns_give_the_exact_gradient_and_the_rewards_to_go_with_less_noise(baseline: str) -> None:
    """π(1) = p by one logit θ: d/dθ of an episode's expected return, 3p, is 3p(1 − p)."""
    chance, envs, steps = 0.7, 20_000, 6
    rollout = bandit_rollout(0, envs, steps, chance)
    score = np.asarray(rollout.action) - chance
    variance = {}
    for returns in ("to-go", "episode"):
        algorithm = reinforce(returns=returns, baseline=baseline)
        weights = np.asarray(algorithm.advantages(rollout)[0])
        weights = weights - weights.mean() if algorithm.centers_advantages else weights
        per_env = (score * weights).sum(0) * 3 / steps  # per episode
        exact, error = 3 * chance * (1 - chance), per_env.std() / envs**0.5
        assert abs(per_env.mean() - exact) < 5 * error
        variance[returns] = per_env.var()
    assert variance["to-go"] < 0.8 * variance["episode"]


def test_a_value_baseline_bootstraps_and_is_trained_by_the_rewards_to_go() -> None:
    rollout = bandit_rollout(1, 2, 4, 0.5)._replace(value=jnp.full((4, 2), 0.5), last_value=jnp.full(2, 10.0))
    for returns in ("to-go", "episode"):
        algorithm = reinforce(returns=returns, baseline="value")
        weights, targets = (np.asarray(x) for x in algorithm.advantages(rollout))
        reward = np.asarray(rollout.reward)
        np.testing.assert_allclose(targets[3], reward[3] + 10.0)  # the window cuts the second episode
        np.testing.assert_allclose(targets[0], reward[:3].sum(0))
        expected = targets[1] if returns == "to-go" else targets[0]
        np.testing.assert_allclose(weights[1], expected - 0.5)


def test_without_a_value_baseline_nothing_is_reported_of_a_critic() -> None:
    info = A2CInfo(*[np.ones(2)] * len(A2CInfo._fields))
    critic = {"value_loss", "explained_variance"}
    for baseline, reported in (("none", set()), ("mean", set()), ("value", critic)):
        algorithm = reinforce(baseline=baseline)
        assert critic & set(algorithm.summarize(info)) == reported
        assert algorithm.has_critic == (baseline == "value")
        assert ("value_loss" in algorithm.must_stay_finite) == algorithm.has_critic
