"""Gymnasium behind the host protocol: one stream of transitions whatever the reset, resume, failures."""

import io
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from toy_envs import LIMIT, Private, Walk, walk

from rollshape.envs import gymnasium_recording
from rollshape.envs.gymnasium_env import GymnasiumEnv
from rollshape.envs.gymnasium_make import make_gymnasium
from rollshape.envs.gymnasium_recording import RecordingEnv
from rollshape.envs.host import EnvironmentFailure, HostEnv, HostStep, Snapshot, env_seeds
from rollshape.envs.registry import kind, make_host
from rollshape.errors import RequestError

COUNT = 60
ACTIONS = np.random.default_rng(0).integers(0, 4, (3, COUNT))
Row = tuple[Any, ...]


def vector(mode: AutoresetMode, toy: type[Walk] = Walk) -> GymnasiumEnv:
    functions = [lambda i=i: RecordingEnv(walk(toy), i) for i in range(3)]
    return GymnasiumEnv(SyncVectorEnv(functions, autoreset_mode=mode), "Walk", LIMIT)


def by_hand(seed: int, actions: Any) -> list[Row]:
    """One environment alone, reset by hand: (observation, action, reward, terminated, truncated, next observation)."""
    env, rows = walk(), []
    before, _ = env.reset(seed=seed)
    for action in actions:
        after, reward, terminated, truncated, _ = env.step(action)
        rows.append((*before, action, reward, terminated, truncated, *after))
        before = env.reset()[0] if terminated or truncated else after
    return rows


def stream(env: HostEnv) -> tuple[list[list[Row]], int]:
    """The same rows of every environment of a pool, and how many steps were resets only."""
    before, rows, resets = env.reset(seed=7), [[], [], []], 0  # type: ignore[var-annotated]
    while any(len(part) < COUNT for part in rows):
        counts = [min(len(part), COUNT - 1) for part in rows]
        action = ACTIONS[range(3), counts]
        out = env.step(env.clip_action(action))
        for i in range(3):
            if out.valid[i]:
                rows[i].append((*before[i], action[i], out.reward[i], out.terminated[i], out.truncated[i],
                                *out.final_observation[i]))  # fmt: skip
            else:
                resets += 1
                assert (out.reward[i], out.terminated[i], out.truncated[i]) == (0, False, False)
                assert out.observation[i, 1] == 0
        before = out.observation
    return [part[:COUNT] for part in rows], resets


@pytest.fixture(scope="module")
def expected() -> list[list[Row]]:
    return [by_hand(seed, actions) for seed, actions in zip(env_seeds(7, 3), ACTIONS, strict=True)]


def test_the_toy_ends_in_every_way(expected: list[list[Row]]) -> None:
    ends = {row[4:6] for part in expected for row in part}
    assert ends == {(False, False), (True, False), (False, True), (True, True)}


@pytest.mark.parametrize("mode", AutoresetMode)
def test_every_autoreset_mode_gives_the_same_transitions(mode: AutoresetMode, expected: list[list[Row]]) -> None:
    rows, resets = stream(vector(mode))
    for part, wanted in zip(rows, expected, strict=True):
        # Terminating at the last allowed step is no truncation.
        assert part == [(*row[:5], row[5] and not row[4], *row[6:]) for row in wanted]
    assert (resets > 0) == (mode is AutoresetMode.NEXT_STEP)


def test_a_pool_keeps_its_mode_when_another_one_is_made() -> None:
    """Gymnasium writes the mode into metadata that all environments of a class share."""
    functions = [lambda i=i: RecordingEnv(walk(), i) for i in range(3)]
    late = SyncVectorEnv(functions, autoreset_mode=AutoresetMode.NEXT_STEP)
    vector(AutoresetMode.SAME_STEP)
    assert late.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert stream(GymnasiumEnv(late, "Walk", LIMIT))[1] > 0


def test_a_step_without_an_end_copies_nothing() -> None:
    env = vector(AutoresetMode.SAME_STEP)
    env.reset(0)
    out = env.step(np.zeros(3, np.int64))
    assert out.final_observation is out.observation
    assert out.observation.dtype == out.reward.dtype == np.float32


def test_processes_and_the_vector_environment_of_an_id(expected: list[list[Row]]) -> None:
    processes = make_host("RollshapeWalk-v0", 3, vectorization_mode="async")
    try:
        rows, _ = stream(processes)
        assert [row[:5] for row in rows[2]] == [row[:5] for row in expected[2]]
        assert not processes.replays
        assert not processes.restore(processes.snapshot())
    finally:
        processes.close()
    own = make_host("gymnasium:CartPole-v1", 3, vectorization_mode="vector_entry_point")
    assert (own.max_steps, own.replays) == (500, False)
    own.reset(0)
    outs = [own.step(own.clip_action(np.ones(3))) for _ in range(30)]
    for now, following in pairwise(outs):
        assert (following.valid == ~(now.terminated | now.truncated)).all()
    with pytest.raises(RequestError, match="single environments"):
        own.restart(np.array([True, False, False]))


@pytest.mark.filterwarnings("ignore::UserWarning")  # Gymnasium also warns of the worker's end
def test_a_failure_in_a_process_names_the_environment() -> None:
    env = make_host("RollshapeFaulty-v0", 2, vectorization_mode="async", fault="raises")
    try:
        env.reset(0)
        with pytest.raises(EnvironmentFailure, match=r"Faulty-v0 failed at step 3: environment [01]: ZeroDivision"):
            played(env, 3)
    finally:
        env.close()


def played(env: HostEnv, steps: int, seed: int = 1) -> list[HostStep]:
    rng = np.random.default_rng(seed)
    high = 4 if "Walk" in env.name or "Private" in env.name else 2
    return [env.step(env.clip_action(rng.integers(0, high, env.num_envs))) for _ in range(steps)]


def stored(snapshot: Snapshot) -> Snapshot:
    """Through a file, as a checkpoint does it."""
    file = io.BytesIO()
    np.savez(file, **snapshot)  # type: ignore[arg-type]
    file.seek(0)
    return dict(np.load(file, allow_pickle=False))


@pytest.mark.parametrize("steps", [0, 7, 403])
def test_cartpole_resumes_bit_for_bit(steps: int) -> None:
    env, other = make_host("gymnasium:CartPole-v1", 3), make_host("gymnasium:CartPole-v1", 3)
    assert env.replays
    env.reset(5)
    ends = sum(int(out.terminated.sum()) for out in played(env, steps))
    assert ends > 30 or steps < 403
    assert other.restore(stored(env.snapshot()))
    assert other.steps == steps
    assert (other.elapsed == env.elapsed).all()
    assert (other.current == env.current).all()
    for one, two in zip(played(env, 200), played(other, 200), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert stored(env.snapshot())["generator"].tolist() == stored(other.snapshot())["generator"].tolist()


def test_continuous_actions_and_resets_by_hand_resume_too() -> None:
    pendulum, other = make_host("gymnasium:Pendulum-v1", 2), make_host("gymnasium:Pendulum-v1", 2)
    pendulum.reset(0)
    for _ in range(205):
        pendulum.step(pendulum.clip_action(np.full((2, 1), 5.0)))
    assert other.restore(stored(pendulum.snapshot()))
    assert (other.current == pendulum.current).all()
    disabled, again = vector(AutoresetMode.DISABLED), vector(AutoresetMode.DISABLED)
    disabled.reset(0)
    played(disabled, 23)
    assert again.restore(disabled.snapshot())
    assert all(
        (a.observation == b.observation).all() for a, b in zip(played(disabled, 9), played(again, 9), strict=True)
    )


def test_what_cannot_be_repeated_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    private = vector(AutoresetMode.SAME_STEP, Private)
    lazy = vector(AutoresetMode.NEXT_STEP)
    monkeypatch.setattr(gymnasium_recording, "LONGEST", 10)
    long = make_host("RollshapeEndless-v0", 3)
    for env, replays in ((private, True), (lazy, False), (long, True)):
        first = env.reset(3).copy()
        played(env, 13)
        assert env.replays == replays
        assert not env.restore(stored(env.snapshot()))
        assert (env.elapsed == 0).all()
        assert (env.current[:, 1] < 1).all()  # fresh episodes
        assert env.current.shape == first.shape
        played(env, 3)


def test_another_environment_under_the_same_snapshot_is_noticed() -> None:
    env = make_host("RollshapeWalk-v0", 3)
    env.reset(0)
    played(env, 3)
    snapshot = env.snapshot()
    changed = {
        "observation": snapshot["observation"] + 1e-6,
        "generator": snapshot["generator"] + np.uint64(1),
        "actions": (snapshot["actions"] + 1) % 4,
    }
    for name, value in changed.items():
        assert not env.restore(snapshot | {name: value}), name
    assert env.restore(snapshot)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("raises", "ZeroDivisionError: by design"),
        ("nan", "the observation is not finite"),
        ("reward", "the reward is not finite"),
        ("shape", "shape (1,), but the space has (2,)"),
        ("dtype", "complex128, but the space has float64"),
    ],
)
def test_failures_name_environment_and_step(fault: str, words: str) -> None:
    functions = [lambda: RecordingEnv(gymnasium.make("RollshapeEndless-v0"), 0),
                 lambda: RecordingEnv(gymnasium.make("RollshapeFaulty-v0", fault=fault), 1)]  # fmt: skip
    env = GymnasiumEnv(SyncVectorEnv(functions, autoreset_mode=AutoresetMode.SAME_STEP), "Mine", None)
    env.reset(0)
    played(env, 2)
    with pytest.raises(EnvironmentFailure) as caught:
        played(env, 1)
    assert str(caught.value).startswith("Mine failed at step 3: environment 1: ")
    assert words in str(caught.value)


def test_a_diverged_policy_is_not_blamed_on_the_environment_alone() -> None:
    env = make_host("gymnasium:Pendulum-v1", 2)
    env.reset(0)
    with pytest.raises(EnvironmentFailure, match="nor is the action"):
        env.step(env.clip_action(np.array([[0.0], [np.nan]])))


def test_wrong_requests_are_one_message() -> None:
    for name, words in (
        ("CartPol-v1", "CartPole-v1"),
        ("DelayChan-v0", "DelayChain-v0"),
        ("gymnasium:NoSuch-v0", "NoSuch"),
        ("no_such_module:Thing-v0", "no_such_module"),
    ):
        with pytest.raises(RequestError, match=words) as caught:
            make_host(name, 2)
        assert caught.value.rule == "environment"
        assert "\n" not in caught.value.message
    with pytest.raises(RequestError, match="options"):
        make_host("gymnasium:CartPole-v1", 2, weight=3)
    with pytest.raises(RequestError, match="vectorization_mode"):
        make_host("gymnasium:CartPole-v1", 2, vectorization_mode="threads")
    silent = gymnasium.make_vec("CartPole-v1", 2, "vector_entry_point")
    silent.metadata = {}
    with pytest.raises(RequestError, match="autoreset_mode"):
        GymnasiumEnv(silent, "Mine", None)


def test_ids_and_time_limits() -> None:
    assert {name: kind(name) for name in ("CartPole-v1", "gymnax:X", "tabular:X")} == dict.fromkeys(
        ("CartPole-v1", "gymnax:X", "tabular:X"), "functional"
    )
    for name in ("gymnasium:CartPole-v1", "envpool:CartPole-v1", "RollshapeWalk-v0", "toy_envs:RollshapeWalk-v0"):
        assert kind(name) == "host"
    assert make_host("toy_envs:RollshapeWalk-v0", 1).max_steps == LIMIT
    assert make_host("RollshapeWalk-v0", 1, max_episode_steps=9).max_steps == 9
    endless = make_host("RollshapeEndless-v0", 1)
    assert (endless.max_steps, endless.horizon) == (None, 1000)
    gymnasium.register(
        "RollshapeVector-v0", vector_entry_point="gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv"
    )
    assert make_gymnasium("RollshapeVector-v0", 2).reset(0).shape == (2, 4)


class Goal(gymnasium.Env[Any, Any]):
    """Ends after as many steps as the action of its first one says; a success where that is even."""

    observation_space, action_space = gymnasium.spaces.Box(0, 9, (1,)), gymnasium.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.left: int | None = None
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.left is None:
            self.left, self.even = int(action), action % 2 == 0
        self.left -= 1
        return np.zeros(1, np.float32), 0.0, self.left <= 0, False, {"is_success": self.left <= 0 and self.even}


@pytest.mark.parametrize("mode", AutoresetMode)
def test_successes_are_counted_where_episodes_end(mode: AutoresetMode) -> None:
    functions = [lambda i=i: RecordingEnv(Goal(), i) for i in range(3)]
    env = GymnasiumEnv(SyncVectorEnv(functions, autoreset_mode=mode), "Goal", 10)
    env.reset(seed=0)
    assert env.success_rate() is None
    for _ in range(2):
        env.step(env.clip_action(np.array([1, 2, 2])))
    late = mode is AutoresetMode.NEXT_STEP  # its second step only resets the first environment
    assert env.success_rate() == pytest.approx(2 / 3 if late else 2 / 4)
    assert env.success_rate() is None
