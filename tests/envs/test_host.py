"""What every backend shares: staggering, seeds, random actions."""

import gymnasium
import numpy as np
import pytest
import toy_envs  # noqa: F401 (registers its environments)
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rollshape.envs.gymnasium_env import GymnasiumEnv
from rollshape.envs.gymnasium_recording import RecordingEnv
from rollshape.envs.host import env_seeds, random_actions, stagger_host
from rollshape.envs.registry import make_host
from rollshape.errors import RequestError


@pytest.mark.parametrize("name", ["RollshapeEndless-v0", "envpool:Pendulum-v1"])
def test_burn_in_gives_each_environment_its_own_phase(name: str) -> None:
    env = make_host(name, 8, max_episode_steps=40)
    env.reset(0)
    observation = stagger_host("burn-in", env, np.random.default_rng(3))
    phases = np.random.default_rng(3).integers(0, 40, 8)
    assert env.elapsed.tolist() == phases.tolist()  # no episode ends on the way
    assert observation is env.current
    if name == "RollshapeEndless-v0":
        assert observation[:, 1].tolist() == phases.tolist()  # the environment's own count
    action, seen = env.clip_action(random_actions(env, np.random.default_rng(0))), set()
    for _ in range(40):
        seen |= set(np.flatnonzero(env.step(action).truncated).tolist())
    assert seen == set(range(8))


def test_none_changes_nothing_and_counter_cannot_be_had() -> None:
    env = make_host("RollshapeWalk-v0", 2)
    first = env.reset(0)
    assert stagger_host("none", env, np.random.default_rng(0)) is first
    with pytest.raises(RequestError, match="not available for RollshapeWalk-v0") as caught:
        stagger_host("counter", env, np.random.default_rng(0))
    assert "burn-in" in caught.value.fix


def test_seeds_are_31_bits_and_do_not_depend_on_their_number() -> None:
    assert env_seeds(3, 4) == env_seeds(3, 100)[:4]
    assert len(set(env_seeds(0, 1000) + env_seeds(1, 1000))) == 2000
    assert all(0 <= seed < 2**31 for seed in env_seeds(2**32 - 1, 100))


def test_random_actions_reach_the_whole_space() -> None:
    rng = np.random.default_rng(0)
    pendulum = make_host("gymnasium:Pendulum-v1", 500)
    torque = random_actions(pendulum, rng)
    assert torque.shape == (500, 1)
    assert -2 <= torque.min() < -1.9
    assert 1.9 < torque.max() <= 2
    assert set(random_actions(make_host("RollshapeWalk-v0", 100), rng).tolist()) == {0, 1, 2, 3}


def test_an_episode_that_ended_and_was_restarted_goes_on_at_once() -> None:
    functions = [lambda i=i: RecordingEnv(gymnasium.make("CartPole-v1"), i) for i in range(4)]
    vector = SyncVectorEnv(functions, autoreset_mode=AutoresetMode.NEXT_STEP)
    for env in (make_host("envpool:CartPole-v1", 4), GymnasiumEnv(vector, "CartPole-v1", 500)):
        env.reset(0)
        ended = np.zeros(4, bool)
        while not ended.any():
            out = env.step(env.clip_action(np.ones(4)))
            ended = out.terminated
        env.restart(ended)
        out = env.step(env.clip_action(np.ones(4)))
        assert out.valid.all()
        assert (out.reward == 1).all()
        assert (env.elapsed[ended] == 1).all()
