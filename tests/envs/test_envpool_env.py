"""EnvPool behind the host protocol: repeats, the masked reset step, pictures, and what it cannot do."""

import sys
from itertools import pairwise

import envpool
import numpy as np
import pytest

from rollshape.envs.host import HostEnv, HostStep, env_seeds, random_actions
from rollshape.envs.inspect import LIBRARY_BYTES, inspect_environment
from rollshape.envs.registry import make_host
from rollshape.envs.spaces import Continuous, Discrete, Observation
from rollshape.errors import RequestError


def played(env: HostEnv, steps: int) -> list[HostStep]:
    rng = np.random.default_rng(0)
    return [env.step(env.clip_action(random_actions(env, rng))) for _ in range(steps)]


@pytest.mark.parametrize("name", ["HalfCheetah-v5", "CartPole-v1", "Reacher-v5"])
def test_a_seed_repeats_whatever_the_threads(name: str) -> None:
    one, two, other = (make_host(f"envpool:{name}", 4, num_threads=threads) for threads in (1, 3, 3))
    assert (one.reset(5) == two.reset(5)).all()
    assert (one.current != other.reset(6)).any(axis=1).all()
    assert len(np.unique(one.current[:, 0])) == 4  # every environment has a seed of its own
    for first, second in zip(played(one, 60), played(two, 60), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    start = two.reset(6)
    assert (start == other.current).all()  # a reset begins again, by its own seed


def test_a_prefix_of_the_environments_does_not_depend_on_their_number() -> None:
    few, many = make_host("envpool:CartPole-v1", 2), make_host("envpool:CartPole-v1", 5)
    assert (few.reset(0) == many.reset(0)[:2]).all()


def test_the_step_that_only_resets_is_masked() -> None:
    env = make_host("envpool:CartPole-v1", 6, max_episode_steps=15)
    assert env.max_steps == 15
    env.reset(0)
    outs, ages = [], np.zeros(6, int)
    for out in played(env, 80):
        ages = np.where(out.valid, ages + 1, 0)
        assert (out.reward == out.valid).all()  # CartPole pays 1 a step
        assert not ((out.terminated | out.truncated) & ~out.valid).any()
        assert out.final_observation is out.observation
        assert (np.abs(out.observation[~out.valid]) <= 0.05).all()  # a fresh state
        assert (ages[out.truncated] == 15).all()
        assert (np.abs(out.observation[out.terminated, 2]) > 0.2094).all()  # the state that ended it, not a fresh one
        outs.append(out)
    for now, following in pairwise(outs):
        assert (following.valid == ~(now.terminated | now.truncated)).all()
    assert any(out.truncated.any() for out in outs)
    assert any(out.terminated.any() for out in outs)


def test_a_termination_at_the_time_limit_is_told_as_truncation() -> None:
    """EnvPool's own way; if this fails it has become better, and its module's text is to be changed."""
    env = make_host("envpool:CartPole-v1", 16, max_episode_steps=9)
    env.reset(0)
    outs = [env.step(np.ones(16, np.int32)) for _ in range(9)]
    fallen = outs[-1].valid & (np.abs(outs[-1].observation[:, 2]) > 0.2095)
    assert fallen.any()
    assert outs[-1].truncated[fallen].all()
    assert not outs[-1].terminated[fallen].any()


def test_order_and_elapsed_steps_are_the_pools_own() -> None:
    env = make_host("envpool:Hopper-v5", 4, max_episode_steps=12)
    bare = envpool.make("Hopper-v5", env_type="gymnasium", num_envs=4, max_episode_steps=12, seed=env_seeds(0, 4))
    assert (env.reset(0) == bare.reset()[0].astype(np.float32)).all()
    rng = np.random.default_rng(0)
    for _ in range(40):
        action = env.clip_action(rng.normal(size=(4, 3)))
        out, (observation, reward, terminated, truncated, info) = env.step(action), bare.step(action)
        assert (out.observation == observation.astype(np.float32)).all()
        assert (out.reward == reward).all()
        assert (out.valid == (info["elapsed_step"] > 0)).all()
        assert (env.elapsed == np.where(terminated | truncated, 0, info["elapsed_step"])).all()
        assert (info["env_id"] == range(4)).all()


def test_one_environment_is_restarted_alone() -> None:
    env = make_host("envpool:CartPole-v1", 4)
    env.reset(0)
    played(env, 5)
    before, chosen = env.current.copy(), np.array([False, True, False, True])
    after = env.restart(chosen)
    assert (after[~chosen] == before[~chosen]).all()
    assert (np.abs(after[chosen]) <= 0.05).all()
    assert env.elapsed.tolist() == [5, 0, 5, 0]
    out = env.step(np.zeros(4, np.int32))
    assert out.valid.all()
    assert env.elapsed.tolist() == [6, 1, 6, 1]


def test_spaces_of_many_kinds() -> None:
    cheetah = make_host("envpool:HalfCheetah-v5", 2)
    assert (cheetah.observation, cheetah.action) == (Observation((17,)), Continuous(6, -1.0, 1.0))
    assert cheetah.reset(0).dtype == np.float32
    assert cheetah.clip_action(np.full((2, 6), 7.0)).tolist() == [[1.0] * 6] * 2
    lake = make_host("envpool:FrozenLake-v1", 3)
    assert lake.observation == Observation((16,))
    assert lake.reset(0).tolist() == np.eye(16)[[0, 0, 0]].tolist()
    walker = make_host("envpool:WalkerWalk-v1", 2)  # a dictionary of three parts
    assert walker.observation == Observation((24,))
    assert walker.reset(0).shape == (2, 24)
    assert (walker.max_steps, make_host("envpool:Blackjack-v1", 1).max_steps) == (1000, None)


def test_pictures_are_bytes_with_channels_last() -> None:
    pong = make_host("envpool:Pong-v5", 2)
    assert (pong.observation, pong.action) == (Observation((84, 84, 4), "uint8"), Discrete(6))
    picture = pong.reset(0)
    assert (picture.shape, picture.dtype) == ((2, 84, 84, 4), np.uint8)
    assert picture.base is not None  # a view
    out = played(pong, 12)[-1]
    raw = np.moveaxis(out.observation, -1, 1)
    assert raw.flags.c_contiguous
    assert (raw[:, 0] != raw[:, 3]).any()  # four moments, not four colours
    assert make_host("envpool:CarRacing-v3", 1).observation.shape == (96, 96, 3)


def test_a_snapshot_starts_fresh_episodes_and_says_so() -> None:
    env, other = make_host("envpool:HalfCheetah-v5", 2), make_host("envpool:HalfCheetah-v5", 2)
    first = env.reset(0).copy()
    played(env, 5)
    snapshot = env.snapshot()
    assert not env.replays
    assert not env.restore(snapshot)
    assert not other.restore(snapshot)
    assert (env.current == other.current).all()  # both alike
    assert (env.current != first).any()  # and not what the run began with
    assert env.elapsed.tolist() == [0, 0]


def test_wrong_requests_are_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, options, words in (
        ("HalfCheeta-v5", {}, "Did you mean HalfCheetah-v5"),
        ("CartPole-v1", {"gravity": 3}, "options"),
        ("CartPole-v1", {"batch_size": 1}, "batch_size"),
        ("Chess-v1", {}, "players"),
    ):
        with pytest.raises(RequestError, match=words) as caught:
            make_host(f"envpool:{name}", 2, **options)
        assert caught.value.rule == "environment"
        assert "\n" not in caught.value.message
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(RequestError, match=r"rollshape\[envpool\]"):
        make_host("envpool:CartPole-v1", 2)


def test_inspection_measures_a_pool() -> None:
    facts = inspect_environment("envpool:HalfCheetah-v5")
    weight, library = facts.pop("env_bytes"), facts.pop("library_bytes")
    assert facts == {
        "obs_shape": (17,), "obs_dtype": "float32", "action_kind": "continuous", "action_dim": 6,
        "episode_length": 1000, "host_envs": True,
    }  # fmt: skip
    assert 100_000 < weight < 10_000_000  # a MuJoCo model and its data
    assert library >= LIBRARY_BYTES["envpool"]
