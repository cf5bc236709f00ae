"""Scores in host environments: when they stop, which episodes count, and that they repeat bit for bit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rollshape.envs.host import HostStep
from rollshape.errors import RequestError
from rollshape.training import scoring
from rollshape.training.evaluate import ScoreProgress
from rollshape.training.run import train
from rollshape.training.scoring import passes, reaches, score_groups, stop_reason
from rollshape.training.setup import open_run

SMALL: dict[str, Any] = {
    "env": "gymnasium:CartPole-v1", "num_envs": 4, "num_steps": 16, "num_epochs": 1, "total_timesteps": 4 * 16 * 4,
    "hidden_sizes": (8,), "log_every": 1, "checkpoint_every": 1,
}  # fmt: skip
FINAL = ("final_return", "final_return_ci", "final_episodes", "final_stopped_by")


def around(mean: float, deviation: float, count: int) -> Any:
    """Returns whose sample mean and sample deviation (ddof 0) are exactly these."""
    return mean + deviation * np.tile([-1.0, 1.0], count // 2)


def test_all_episodes_end_a_score() -> None:
    assert stop_reason(around(100, 50, 128), 128, 0, 10_000) == "episodes"
    assert stop_reason(around(100, 50, 112), 128, 0, 10_000) is None


@pytest.mark.parametrize("mean", [100.0, -100.0])
def test_a_narrow_interval_ends_a_score(mean: float) -> None:
    # 1.96 · s / √64 ≤ 2 for s ≤ 8.16; with ddof 1, s = deviation · √(64/63)
    assert stop_reason(around(mean, 8.0, 64), 128, 0, 10_000) == "interval"
    assert stop_reason(around(mean, 8.2, 64), 128, 0, 10_000) is None
    assert stop_reason(around(mean, 0.1, 32), 128, 0, 10_000) == "interval"
    assert stop_reason(around(mean, 0.1, 16), 128, 0, 10_000) is None  # too few to know the deviation


def test_identical_returns_and_a_mean_of_zero_end_no_score() -> None:
    for value in (0.0, 500.0):
        assert stop_reason(np.full(112, value), 128, 0, 10_000) is None
    assert stop_reason(around(0.0, 1e-3, 112), 128, 0, 10_000) is None


def test_the_step_budget_ends_a_score() -> None:
    assert stop_reason(around(100, 50, 16), 128, 9_999, 10_000) is None
    assert stop_reason(around(100, 50, 16), 128, 10_000, 10_000) == "steps"


def test_without_a_budget_all_episodes_are_played() -> None:
    assert stop_reason(around(100, 0.1, 112), 128, 10**9, None) is None


def scripted(lengths: list[list[int]]) -> Any:
    """Groups of environments whose episodes have these lengths and a reward of 1 per step, and which then go on."""

    def play(group: int) -> Iterator[HostStep]:
        limits, none = np.asarray(lengths[group]), np.zeros(len(lengths[group]), bool)
        for step in range(1, 1000):
            reward, ended = np.ones(none.size, np.float32), step % limits == 0
            yield HostStep(none, reward, ended, none, none, ~none, reward)

    return play


def test_groups_finish_their_episodes_and_only_the_first_of_each_environment_counts() -> None:
    score = score_groups(scripted([[1, 2, 9], [4, 4, 4]]), 3, 6, max_steps=27)
    assert score == (4.0, pytest.approx(1.96 * np.std([1, 2, 9], ddof=1) / 3**0.5), 3, 4.0, "steps")  # 3 · 9 steps
    score = score_groups(scripted([[1, 2, 9], [4, 4, 4]]), 3, 6, max_steps=28)
    assert (score.mean, score.episodes, score.stopped_by) == (4.0, 6, "episodes")


def test_exactly_the_episodes_asked_for_count() -> None:
    """The surplus environment of the last group is neither counted nor waited for."""
    played = [0, 0]

    def play(group: int) -> Iterator[HostStep]:
        for step in scripted([[2, 4], [6, 900]])(group):
            played[group] += 1
            yield step

    score = score_groups(play, 2, 3)
    assert (score.mean, score.episodes, score.length) == (4.0, 3, 4.0)
    assert played == [4, 6]


def test_progress_counts_episodes_and_gives_the_score_of_whole_groups() -> None:
    events: list[ScoreProgress] = []
    score = score_groups(scripted([[1, 5], [3, 3]]), 2, 4, on_score=events.append)
    assert [event.played for event in events] == [0, 1, 2, 4]
    assert [event.score and event.score.mean for event in events] == [None, None, 3.0, 3.0]
    assert events[-1].score == score
    assert {event.episodes for event in events} == {4}


def test_when_scores_are_due() -> None:
    assert passes(300, 128, 384)
    assert not passes(300, 384, 512)
    assert not passes(None, 0, 10**9)
    assert reaches(5.0, 5.0)
    assert not reaches(None, 5.0)
    assert not reaches(5.0, None)


class Lengthy(gymnasium.Env):  # type: ignore[type-arg]
    """Episodes of 200 to 207 steps with a random return."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, **_: Any) -> Any:
        super().reset(seed=seed)
        self.left = 200 + int(self.np_random.integers(8))
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.left -= 1
        return np.zeros(2, np.float32), self.np_random.normal() + float(action), self.left == 0, False, {}


if "RollshapeLengthy-v0" not in gymnasium.registry:
    gymnasium.register("RollshapeLengthy-v0", entry_point=Lengthy, max_episode_steps=300)
LENGTHY = {**SMALL, "env": "RollshapeLengthy-v0"}


@pytest.mark.parametrize("seed", [0, 1])
def test_a_short_training_is_not_scored_for_longer_than_its_budget(seed: int, tmp_path: Path) -> None:
    run = train(out=tmp_path / "run", seed=seed, **LENGTHY)
    assert run.summary["final_stopped_by"] == "steps"
    assert run.summary["final_episodes"] == 64  # 3 groups of 16 · 207 steps are fewer than 10,000
    driver, state = open_run(run.path)
    again = [driver.score(state, seed, 64) for _ in range(2)]  # `rollshape eval --episodes 64`
    assert again[0] == again[1]
    assert (again[0].mean, again[0].half_width) == (run.final_return, run.summary["final_return_ci"])
    assert driver.score(state, seed, 80).episodes == 80
    driver.close()


def test_a_resumed_run_has_the_same_scores(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def on_row(row: dict[str, Any], _: Any) -> None:
        if row["update"] == 3:
            raise Stop

    spec = {**LENGTHY, "eval_every": 64}
    whole = train(out=tmp_path / "whole", **spec)
    with pytest.raises(Stop):
        train(out=tmp_path / "broken", on_row=on_row, **spec)
    resumed = train(out=tmp_path / "broken", resume=True, **spec)
    assert [resumed.summary[name] for name in FINAL] == [whole.summary[name] for name in FINAL]
    scores = [[row["eval_return"] for row in run.metrics] for run in (whole, resumed)]
    assert scores[0] == scores[1]
    assert None not in scores[0]


def test_groups_play_different_episodes(tmp_path: Path) -> None:
    run = train(out=tmp_path / "run", **{**LENGTHY, "final_episodes": 0})
    driver, state = open_run(run.path)
    means = [driver.score(state, 0, count).mean for count in (16, 32)]
    assert means[0] != means[1]
    driver.close()


@pytest.mark.parametrize("env", ["gymnasium:CartPole-v1", "CartPole-v1"])
def test_the_number_of_final_episodes_is_a_setting(env: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(out=tmp_path / "few", **{**SMALL, "env": env, "final_episodes": 5})
    assert [run.summary[name] for name in FINAL[2:]] == [5, "episodes"]
    monkeypatch.setattr(scoring, "score_state", lambda *_: pytest.fail("nothing to score"))
    run = train(out=tmp_path / "none", **{**SMALL, "env": env, "final_episodes": 0})
    assert run.status == "done"
    assert [run.summary[name] for name in FINAL] == [None, None, 0, None]


@pytest.mark.parametrize("episodes", [-1, 1_000_001, 2.5])
def test_a_number_of_final_episodes_out_of_range_is_refused(episodes: float, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="final_episodes"):
        train(out=tmp_path / "run", final_episodes=episodes, **SMALL)
    assert not (tmp_path / "run").exists()
