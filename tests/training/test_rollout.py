"""What is computed after the loop over steps is what each step would have computed by itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.agents.policy import Policy
from rollshape.algorithms.base import Rollout
from rollshape.envs.functional import FunctionalEnv, start
from rollshape.envs.registry import make
from rollshape.training.rollout import collect_with_policy
from rollshape.training.setup import new_driver, plan_run
from rollshape.training.spec import Spec

LIMIT = 200  # of Pendulum


@pytest.fixture(scope="module")
def env() -> FunctionalEnv:
    return make("Pendulum-v1")


@pytest.fixture(scope="module")
def policy() -> Policy:
    spec = Spec(env="Pendulum-v1", num_envs=4, num_steps=4, hidden_sizes=(8,), total_timesteps=64)
    driver = new_driver(spec, plan_run(spec))
    return driver.policy(driver.start())


def collected(env: FunctionalEnv, policy: Policy, num_steps: int) -> Rollout:
    """A rollout of four environments at different phases of their episodes."""
    keys = jax.random.split(jax.random.key(0), 3)
    episodes = jax.vmap(lambda key: start(env, key))(jax.random.split(keys[0], 4))
    episodes = episodes._replace(steps=jnp.array([0, 7, 150, 199]))
    return jax.jit(lambda e: collect_with_policy(env, policy, e, (keys[1], keys[2]), num_steps)[1])(episodes)


@pytest.mark.parametrize("num_steps", [60, 450])  # one block of the time limit, and three
def test_truncated_episodes_bootstrap_from_where_they_ended(env: FunctionalEnv, policy: Policy, num_steps: int) -> None:
    rollout = collected(env, policy, num_steps)
    truncated = np.asarray(rollout.truncated)
    np.testing.assert_array_equal(truncated, np.asarray(rollout.steps) == LIMIT - 1)
    assert truncated.sum() == {60: 2, 450: 10}[num_steps]
    observation = np.asarray(rollout.observation)[truncated]
    angle = np.arctan2(observation[:, 1], observation[:, 0])
    states = jnp.stack([jnp.asarray(angle), jnp.asarray(observation[:, 2])], axis=1)
    actions = env.clip_action(rollout.action[truncated])
    final = jax.vmap(lambda state, action: env.step(jax.random.key(0), state, action).observation)(states, actions)
    np.testing.assert_allclose(rollout.final_value[truncated], policy.value(final), rtol=1e-3, atol=1e-4)
    assert not np.asarray(rollout.final_value)[~truncated].any()


def test_values_and_log_probabilities_are_those_of_each_step(env: FunctionalEnv, policy: Policy) -> None:
    rollout = collected(env, policy, 60)
    outputs, values = policy(rollout.observation)
    np.testing.assert_allclose(rollout.value, values, rtol=1e-5, atol=1e-6)
    expected = policy.distribution.log_prob(outputs, rollout.action)
    np.testing.assert_allclose(rollout.log_prob, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(rollout.episode_length, rollout.steps + 1)
    assert rollout.outputs is None
