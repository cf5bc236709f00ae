"""The replay against a list of episodes that a plain loop keeps; every observation is a number of its own."""

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.algorithms.base import Rollout
from rollshape.algorithms.registry import new_algorithm
from rollshape.algorithms.replay import (
    TERMINAL,
    ReplayBuffer,
    drop_running_episodes,
    episodic_rewards,
    has_finished_episode,
    has_overlong_episode,
    has_transition,
    latest_episodes,
    new_buffer,
    returns_of,
    sample_episodes,
    sample_transitions,
    slot,
    store,
)
from rollshape.algorithms.sac import SAC, TransitionBatches
from rollshape.envs.functional import FunctionalEnv
from rollshape.envs.registry import make
from rollshape.geometry.plan import plan
from rollshape.training.spec import Spec

NUM_ENVS, STEPS = 2, 4
PLAN = plan(algo="rrd", num_envs=NUM_ENVS, steps_per_iteration=NUM_ENVS * STEPS, buffer_size=2 * 20)


class Counting(FunctionalEnv):
    name, max_steps = "counting", None
    observation, action = make("Pendulum-v1").observation, make("CartPole-v1").action

    def reset(self, key: Any) -> Any: ...
    def step(self, key: Any, state: Any, action: Any) -> Any: ...


class Diary:
    """What was lived, in lists: [environment][episode] = (ids of observations, rewards, terminated, finished)."""

    def __init__(self, seed: int, mean_length: float = 4.0) -> None:
        self.rng, self.mean, self.number = np.random.default_rng(seed), mean_length, 0
        self.lives: list[list[dict[str, Any]]] = [[] for _ in range(NUM_ENVS)]
        self.waiting = np.zeros(NUM_ENVS, bool)  # ended, and reset by the next step

    def fresh(self) -> int:
        self.number += 1
        return self.number

    def chunk(self) -> Rollout:
        shape = (STEPS, NUM_ENVS)
        seen, final = np.zeros((*shape, 3), np.float32), np.zeros((*shape, 3), np.float32)
        columns = {name: np.zeros(shape, np.float32) for name in ("action", "reward", "episode_return")}
        flags = {name: np.zeros(shape, bool) for name in ("terminated", "truncated", "valid")}
        for t in range(STEPS):
            for e in range(NUM_ENVS):
                if self.waiting[e]:
                    self.waiting[e] = False
                    continue
                life = self.lives[e]
                if not life or life[-1]["over"]:
                    life.append({"seen": [self.fresh()], "rewards": [], "terminated": False, "over": False})
                now = life[-1]
                over, reward = self.rng.random() < 1 / self.mean, float(self.rng.normal())
                seen[t, e], flags["valid"][t, e] = now["seen"][-1], True
                now["seen"].append(self.fresh())
                now["rewards"].append(reward)
                final[t, e], columns["reward"][t, e] = now["seen"][-1], reward
                columns["episode_return"][t, e] = sum(now["rewards"])
                if over:
                    now["over"], now["terminated"] = True, bool(self.rng.random() < 0.5)
                    flags["terminated" if now["terminated"] else "truncated"][t, e] = True
                    self.waiting[e] = self.rng.random() < 0.5
        return Rollout(
            observation=jnp.asarray(seen), final_observation=jnp.asarray(final), steps=jnp.zeros(shape, int),
            episode_length=jnp.zeros(shape, int), **{k: jnp.asarray(v) for k, v in (columns | flags).items()},
        )  # fmt: skip


keep = jax.jit(store)
DRAWS = 4000
draw_some = jax.jit(lambda replay, key: sample_transitions(replay, key, (DRAWS,)))
draw_wholes = jax.jit(lambda replay, key: sample_episodes(replay, key, (DRAWS,)))


def lived(chunks: int, seed: int, **options: Any) -> tuple[Diary, ReplayBuffer]:
    diary, replay = Diary(seed, **options), new_buffer(PLAN, Counting.observation, Counting.action)
    for _ in range(chunks):
        replay = keep(replay, diary.chunk())
    return diary, replay


def held(diary: Diary, replay: ReplayBuffer) -> dict[int, tuple[int, float, float, bool]]:
    """id of s → (id of s′, reward, as told, terminated) of every transition that the rings must still hold."""
    found = {}
    for e, life in enumerate(diary.lives):
        places: list[Any] = []
        for episode in life:
            count = len(episode["rewards"])
            for i, reward in enumerate(episode["rewards"]):
                last = episode["over"] and i == count - 1
                shown = sum(episode["rewards"]) if last else 0.0
                ended = last and episode["terminated"]
                places.append((episode["seen"][i], (episode["seen"][i + 1], reward, shown, ended)))
            if episode["over"]:
                places.append(None)
        assert int(replay.written[e]) == len(places)
        if places[-1] is not None:
            places.pop()  # nobody has stored yet where it led
            there = places[-(20 - 1) :]
        else:
            there = places[-20:]
        found |= dict(entry for entry in there if entry is not None)
    return found


@pytest.mark.parametrize(("chunks", "seed"), [(1, 0), (3, 1), (30, 2), (31, 3)])
def test_every_transition_that_fits_is_drawn_with_its_successor_as_often_as_any_other(chunks: int, seed: int) -> None:
    diary, replay = lived(chunks, seed)
    env, position = draw_some(replay, jax.random.key(seed))
    here, there = slot(replay, env, position), slot(replay, env, position + 1)
    shown = episodic_rewards(replay, env, position)
    expected, counts = held(diary, replay), Counter(np.asarray(replay.observation[here, 0], int).tolist())
    assert set(counts) == set(expected)
    for i in range(0, DRAWS, 37):
        told = expected[int(replay.observation[here[i], 0])]
        assert int(replay.observation[there[i], 0]) == told[0]
        assert float(replay.reward[here[i]]) == pytest.approx(told[1], abs=1e-5)
        assert float(shown[i]) == pytest.approx(told[2], abs=1e-4)
        assert bool(replay.kind[here[i]] == TERMINAL) == told[3]
    for is_episodic, expected in ((False, replay.reward[here]), (True, shown)):
        spec = Spec(algo="sac", episodic_reward=is_episodic)
        sac = new_algorithm(spec, plan(algo="sac"), Counting.observation, Counting.action)
        assert isinstance(sac, SAC)
        batch = sac.transitions(replay, TransitionBatches(env, position, jnp.zeros(())))
        np.testing.assert_array_equal(batch.reward, expected)
    mean = DRAWS / len(counts)
    assert all(abs(count - mean) < 5 * mean**0.5 for count in counts.values())


@pytest.mark.parametrize(("chunks", "seed"), [(3, 1), (40, 2)])
def test_whole_finished_episodes_are_drawn_in_proportion_to_their_length(chunks: int, seed: int) -> None:
    diary, replay = lived(chunks, seed)
    assert bool(has_finished_episode(replay))
    episodes = draw_wholes(replay, jax.random.key(seed))
    totals = returns_of(replay, episodes)
    starts = np.asarray(replay.observation[slot(replay, episodes.env, episodes.start), 0], int)
    wholes = {}
    for e, life in enumerate(diary.lives):
        behind = int(replay.written[e])
        for episode in reversed(life):
            behind -= len(episode["rewards"]) + episode["over"]
            if episode["over"] and behind >= int(replay.written[e]) - 20:
                wholes[episode["seen"][0]] = episode
    counts = Counter(starts.tolist())
    assert set(counts) == set(wholes)
    steps = sum(len(episode["rewards"]) for episode in wholes.values())
    for first, count in counts.items():
        mean = DRAWS * len(wholes[first]["rewards"]) / steps
        assert abs(count - mean) < 5 * mean**0.5
    for i in range(0, DRAWS, 97):
        episode = wholes[int(starts[i])]
        assert int(episodes.length[i]) == len(episode["rewards"])
        assert float(totals[i]) == pytest.approx(sum(episode["rewards"]), abs=1e-4)
    last, whole = latest_episodes(replay)
    assert bool(whole.any())
    assert int(last.length[0]) == len([life for life in diary.lives[0] if life["over"]][-1]["rewards"])


def test_an_episode_that_outgrows_its_ring_never_counts_as_whole() -> None:
    _, replay = lived(8, 0, mean_length=1e9)
    assert bool(has_overlong_episode(replay))
    assert not bool(has_finished_episode(replay))
    assert bool(has_transition(replay))
    assert not bool(has_overlong_episode(lived(1, 0)[1]))
    assert not bool(has_transition(new_buffer(PLAN, Counting.observation, Counting.action)))


def test_what_was_cut_off_is_no_transition_and_no_episode() -> None:
    diary, replay = lived(2, 5, mean_length=1e9)
    cut = drop_running_episodes(replay)
    for life in diary.lives:
        life.append({"seen": [diary.fresh()], "rewards": [], "terminated": False, "over": False})
    diary.mean = 2.0
    for _ in range(2):
        cut = keep(cut, diary.chunk())
    env, position = draw_some(cut, jax.random.key(0))
    pairs = {
        (int(a), int(b))
        for a, b in zip(
            cut.observation[slot(cut, env, position), 0],
            cut.observation[slot(cut, env, position + 1), 0],
            strict=True,
        )
    }
    lived_pairs = {
        pair for life in diary.lives for one in life for pair in zip(one["seen"][:-1], one["seen"][1:], strict=True)
    }
    assert pairs <= lived_pairs
    episodes = draw_wholes(cut, jax.random.key(1))
    assert int(episodes.start.min()) >= int(replay.written.min())


def test_bytes_are_the_planned_ones_and_bytes_stay_bytes() -> None:
    for name in ("Pendulum-v1", "CartPole-v1"):
        env = make(name)
        made = plan(
            algo="rrd", buffer_size=5000, obs_shape=env.observation.shape, action_dim=1, num_envs=4,
            action_kind="continuous" if name == "Pendulum-v1" else "discrete",
        )  # fmt: skip
        replay = new_buffer(made, env.observation, env.action)
        assert made.memory is not None
        held_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(replay)) - 3 * 4 * 4
        assert held_bytes == made.memory.replay_bytes
