"""Our classic control against Gymnasium's, step for step, and against gymnax's."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.envs.functional import FunctionalEnv
from rollshape.envs.registry import CLASSIC, make
from rollshape.envs.spaces import Discrete

CASES = sorted(CLASSIC)


def random_action(env: FunctionalEnv, chance: np.random.Generator) -> Any:
    if isinstance(env.action, Discrete):
        return int(chance.integers(env.action.n))
    return chance.uniform(env.action.low * 1.2, env.action.high * 1.2, size=env.action.dim).astype(np.float32)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", CASES)
def test_each_step_is_gymnasiums(name: str) -> None:
    """Gymnasium is put into our state before each step, so that rounding does not pile up in chaotic dynamics."""
    ours, theirs = make(name), gymnasium.make(name).unwrapped
    theirs.reset(seed=0)
    chance = np.random.default_rng(0)
    step, reset = jax.jit(ours.step), jax.jit(ours.reset)
    ends = 0
    for episode in range(8):
        state, _ = reset(jax.random.key(episode))
        for _ in range(60):
            action = random_action(ours, chance)
            theirs.state = np.asarray(state, dtype=np.float64)  # type: ignore[attr-defined]
            if name.startswith("CartPole"):
                theirs.steps_beyond_terminated = None  # type: ignore[attr-defined]
            observation, reward, terminated, _, _ = theirs.step(action)
            outcome = step(jax.random.key(0), state, jnp.asarray(action))
            np.testing.assert_allclose(outcome.observation, observation, atol=2e-5)
            assert float(outcome.reward) == pytest.approx(float(reward), abs=2e-5)
            assert bool(outcome.terminated) == terminated
            ends += terminated
            state = outcome.state if not terminated else reset(jax.random.key(100 + ends))[0]
    assert ends > 0 or not name.startswith("CartPole")


@pytest.mark.parametrize("name", ["MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1"])
def test_the_goal_ends_the_episode(name: str) -> None:
    env = make(name)
    near = {
        "MountainCar-v0": [0.49, 0.06],
        "MountainCarContinuous-v0": [0.44, 0.06],
        "Acrobot-v1": [3.1, 0.0, 0.0, 0.0],
    }
    action = jnp.asarray(2) if isinstance(env.action, Discrete) else jnp.ones(1)
    outcome = env.step(jax.random.key(0), jnp.array(near[name]), action)
    assert bool(outcome.terminated)
    assert float(outcome.reward) == pytest.approx(
        {"MountainCar-v0": -1, "MountainCarContinuous-v0": 99.9, "Acrobot-v1": 0}[name]
    )


@pytest.mark.parametrize("name", CASES)
def test_spaces_limits_and_starts_are_gymnasiums(name: str) -> None:
    ours, theirs = make(name), gymnasium.make(name)
    assert ours.observation.shape == theirs.observation_space.shape
    assert theirs.spec is not None
    assert ours.max_steps == theirs.spec.max_episode_steps
    states, observations = jax.vmap(ours.reset)(jax.random.split(jax.random.key(0), 2000))
    reference = np.stack([theirs.reset(seed=seed)[0] for seed in range(2000)])
    np.testing.assert_allclose(observations.mean(0), reference.mean(0), atol=0.06)
    np.testing.assert_allclose(observations.std(0), reference.std(0), atol=0.04)
    assert states.shape[0] == 2000


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "Acrobot-v1"])
def test_gymnax_agrees(name: str) -> None:
    ours, theirs = make(name), make(f"gymnax:{name}")
    assert (ours.observation.shape, ours.max_steps) == (theirs.observation.shape, theirs.max_steps)
    chance = np.random.default_rng(1)
    state, _ = theirs.reset(jax.random.key(3))
    for _ in range(20):
        action = jnp.asarray(random_action(ours, chance))
        numbers = [v for field, v in vars(state).items() if field not in ("time", "last_u")]
        mine = ours.step(jax.random.key(0), jnp.stack(numbers), action)
        state, observation, reward, terminated = theirs.step(jax.random.key(0), state, action)
        np.testing.assert_allclose(mine.observation, observation, atol=2e-5)
        assert float(mine.reward) == pytest.approx(float(reward), abs=2e-5)
        assert bool(mine.terminated) == bool(terminated)
