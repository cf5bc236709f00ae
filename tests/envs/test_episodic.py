"""Episodic reward: the sum is the same, received at the end, on every backend."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_envs  # noqa: F401 (it registers)

from rollshape.envs.episodic import EpisodicEnv, EpisodicHost
from rollshape.envs.functional import start, step_and_reset
from rollshape.envs.host import random_actions
from rollshape.envs.registry import make, make_host


def test_a_functional_environment_tells_its_return_at_the_end_and_a_time_limit_stays_one() -> None:
    plain = make("Pendulum-v1")
    env = EpisodicEnv(plain)
    keys = jax.random.split(jax.random.key(1), 450)

    def played(env):  # type: ignore[no-untyped-def]
        def step(episode, key):  # type: ignore[no-untyped-def]
            return step_and_reset(env, key, episode, jnp.ones(1))

        return jax.jit(lambda: jax.lax.scan(step, start(env, jax.random.key(0)), keys)[1])()

    dense, episodic = played(plain), played(env)
    ended = np.asarray(episodic.truncated)
    assert np.flatnonzero(ended).tolist() == [199, 399]
    assert not np.asarray(episodic.terminated).any()
    np.testing.assert_array_equal(episodic.true_reward, dense.reward)
    np.testing.assert_array_equal(episodic.final_observation, dense.final_observation)
    assert (np.asarray(episodic.reward)[~ended] == 0).all()
    for i, last in enumerate((199, 399)):
        assert float(episodic.reward[last]) == pytest.approx(float(dense.reward[200 * i : last + 1].sum()), rel=1e-5)


@pytest.mark.parametrize("env_id", ["gymnasium:RollshapeWalk-v0", "envpool:CartPole-v1"])
def test_a_host_environment_tells_its_return_at_the_end(env_id: str) -> None:
    plain, env = make_host(env_id, 3), EpisodicHost(make_host(env_id, 3))
    rng, totals, num_ended = np.random.default_rng(0), np.zeros(3), 0
    plain.reset(7)
    env.reset(7)
    assert env.observation == plain.observation
    for _ in range(60):
        action = plain.clip_action(random_actions(plain, rng))
        dense, outcome = plain.step(action), env.step(action)
        np.testing.assert_array_equal(outcome.true_reward, dense.reward)
        np.testing.assert_array_equal(outcome.truncated, dense.truncated)
        np.testing.assert_array_equal(env.current, plain.current)
        totals += dense.reward
        ended = outcome.terminated | outcome.truncated
        np.testing.assert_allclose(outcome.reward, np.where(ended, totals, 0), rtol=1e-5)
        num_ended += int(ended.sum())
        totals[ended] = 0
    assert num_ended > 3
    plain.close()
    env.close()


def test_a_snapshot_holds_what_was_not_told_yet() -> None:
    rng = np.random.default_rng(0)
    env = EpisodicHost(make_host("gymnasium:RollshapeWalk-v0", 3))
    env.reset(7)
    for _ in range(13):
        env.step(env.clip_action(random_actions(env, rng)))
    kept, actions = env.snapshot(), [env.clip_action(random_actions(env, rng)) for _ in range(9)]
    rest = [env.step(action).reward for action in actions]
    again = EpisodicHost(make_host("gymnasium:RollshapeWalk-v0", 3))
    assert again.restore(kept)
    assert again.steps == 13
    np.testing.assert_array_equal([again.step(action).reward for action in actions], rest)
    chosen = np.array([True, False, False])
    again.restart(chosen)
    assert again.snapshot()["totals"][0] == 0
    env.close()
    again.close()
