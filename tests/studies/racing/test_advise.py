"""Races of real runs: the decision survives being killed, nothing is trained twice, wrong requests are one message."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import rollshape
from rollshape.cli import main
from rollshape.errors import RequestError, RunError
from rollshape.studies.racing.advise import new_race, recommend
from rollshape.studies.racing.race import Race
from rollshape.studies.racing.settings import RaceSettings
from rollshape.studies.run import open_study, run_study
from rollshape.studies.store import Store, TrialResult
from rollshape.studies.study_file import study_from_dict
from rollshape.studies.trials import expand

SMALL: dict[str, Any] = {"num_epochs": 1, "hidden_sizes": (8,), "num_minibatches": 1}
SHAPES = ("4x8", "8x8", "8x16")
STEPS = 2560
FLAGS = ["--env", "CartPole-v1", "--total-timesteps", str(STEPS), "--shapes", *SHAPES, "--num-epochs", "1",
         "--hidden-sizes", "8", "--num-minibatches", "1", "--budget", "0.4", "--seeds", "2", "--json"]  # fmt: skip


@pytest.fixture(scope="module")
def race(tmp_path_factory: pytest.TempPathFactory) -> rollshape.Recommendation:
    out = tmp_path_factory.mktemp("races") / "race"
    return rollshape.advise("CartPole-v1", STEPS, shapes=SHAPES, budget=0.4, seeds=2, out=out, to="sb3", **SMALL)


def trained(out: Path) -> list[tuple[str, int]]:
    """Return (trial, timesteps) of every end that was journaled."""
    events = Store(out).journal.events()
    return [(event["trial"], event["summary"]["timesteps"]) for event in events if event["event"] == "end"]


def test_the_answer(race: rollshape.Recommendation) -> None:
    document = race.to_dict()
    assert [row["status"] for row in document["ranking"]].count("best") == 1
    assert {(row["num_envs"], row["num_steps"]) for row in document["ranking"]} == {(4, 8), (8, 8), (8, 16)}
    assert document["best"].keys() == {"num_envs", "num_steps", "minibatch_size", "num_epochs", "learning_rate"}
    assert document["config"]["n_envs"] == document["best"]["num_envs"]
    assert document["config"]["batch_size"] == document["best"]["minibatch_size"]
    assert all(isinstance(line, str) for line in document["why"])
    assert json.loads((race.out / "advice.json").read_text()) == document


def test_the_cost_is_what_was_trained_and_within_the_budget(race: rollshape.Recommendation) -> None:
    last: dict[str, int] = {}
    for trial, timesteps in trained(race.out):
        assert timesteps > last.get(trial, 0), "a trial continues where it was paused"
        last[trial] = timesteps
    assert race.advice.timesteps == sum(last.values())
    assert race.advice.share == sum(last.values()) / (3 * 2 * STEPS)
    assert race.advice.share <= 0.4


@pytest.mark.parametrize("objective", ["return", "seconds"])
def test_parts_end_at_the_nearest_interval_also_if_rollouts_do_not_divide_them(objective: str, tmp_path: Path) -> None:
    total = 100_000  # a part has 5,000 timesteps: 78.1 rollouts of 64, 4.9 of 1,024, 0.3 of 16,384
    settings = RaceSettings(objective=objective)  # type: ignore[arg-type]
    study = new_race(
        "CartPole-v1", total, shapes=["8x8", "32x32", "128x128"], max_envs=None, settings=settings, seeds=3, vary=(),
        fields={},
    )  # fmt: skip
    race = Race(study, settings, expand(study), Store(tmp_path / "race"))
    assert [race.end_of(0, point) for point in (1, 2, 8)] == [2 * 4992, 2 * 4992, 8 * 4992]  # first scored after 5,000
    assert [race.end_of(1, point) for point in (1, 2, 8)] == [5 * 1024, 10 * 1024, 40 * 1024]
    assert [race.end_of(2, point) for point in (1, 2, 8)] == [16_384, 16_384, 3 * 16_384]
    for i, candidate in enumerate(race.candidates):
        assert race.end_of(i, 20) == candidate.plan.actual_timesteps


def test_another_call_trains_nothing(race: rollshape.Recommendation) -> None:
    before = trained(race.out)
    again = rollshape.advise("CartPole-v1", STEPS, shapes=SHAPES, budget=0.4, seeds=2, out=race.out, to="sb3", **SMALL)
    assert again.to_dict() == race.to_dict()
    assert trained(race.out) == before


def test_a_race_is_a_study(race: rollshape.Recommendation, capsys: pytest.CaptureFixture[str]) -> None:
    assert open_study(race.out).is_finished
    assert main(["report", str(race.out), "--json"]) == 0
    assert "report.html" in json.loads(capsys.readouterr().out)["html"]


def test_killed_at_any_moment_it_resumes_to_the_identical_answer(
    race: rollshape.Recommendation, tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "rollshape.cli", "advise", *FLAGS, "--out", str(out), "--jobs", "1"]
    for kills in range(20):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        ends = len(trained(out))
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline and len(trained(out)) < ends + 1:
            time.sleep(0.02)
        time.sleep(0.2 * kills)  # into the next trial
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert kills >= 2
    output = json.loads(process.communicate()[0])
    expected = race.to_dict()
    for name in ("best", "ranking", "cost", "why"):
        assert output[name] == expected[name], name


def test_a_shape_that_fails_is_dropped_and_tried_again_by_the_next_call(race: rollshape.Recommendation) -> None:
    state = open_study(race.out)
    assert state.race is not None
    last = state.race.candidates[-1].trials[0]
    state.store.record_end("other", TrialResult("failed", "out of memory", "too large"))
    assert state.race.excluded() == {}
    progress = dict(state.store.progress())
    progress[last.id] = type(progress["other"])(TrialResult("failed", "out of memory", "too large"), 1)
    race_of_study = state.race
    assert race_of_study._excluded(progress) == {len(race_of_study.candidates) - 1: "failed: too large"}
    again = Race(state.study, race_of_study.settings, state.expansion, state.store)
    again._failures = {last.id: 1}
    assert again._excluded(progress) == {}


def test_a_shape_that_diverges_before_its_first_score_is_dropped(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"No shape could be trained: .*diverged"):
        rollshape.advise(
            "CartPole-v1", 100_000, shapes=["8x8", "8x16"], budget=0.1, seeds=1, out=tmp_path / "race", jobs=1,
            learning_rate=1e30, **SMALL,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("race", "varied", "message"),
    [
        ({"budget": 0.15}, {"env": ["CartPole-v1", "Acrobot-v1"]}, "points of a race have different env"),
        ({"budget": 0.15}, {"total_timesteps": [STEPS, 2 * STEPS]}, "points of a race have different total_timesteps"),
        ({"budget": 0.029}, {}, "is too small"),
        ({"budget": 0.035, "objective": "seconds"}, {}, "is too small"),
    ],
)
def test_a_study_file_with_a_race_that_makes_no_sense(
    race: dict[str, Any], varied: dict[str, Any], message: str
) -> None:
    fixed = {
        name: value for name, value in {"env": "CartPole-v1", "total_timesteps": STEPS}.items() if name not in varied
    }
    grid = {"num_envs": [4, 8], **varied}
    with pytest.raises(RequestError, match=message):
        study_from_dict({"fixed": {"num_steps": 8, **fixed}, "grid": grid, "race": race}, "wrong")


def test_a_shape_that_diverges_is_dropped_with_its_reason(tmp_path: Path) -> None:
    values = {
        "env": "CartPole-v1",
        "fixed": {"num_steps": 8, "total_timesteps": STEPS, "num_epochs": 1, "num_minibatches": 1, "hidden_sizes": [8]},
        "points": [{"num_envs": 4}, {"num_envs": 8}, {"num_envs": 8, "learning_rate": 1e30}],
        "seeds": 2,
        "race": {"budget": 0.4, "objective": "seconds"},
    }
    state = run_study(study_from_dict(values, "diverging"), tmp_path / "race", jobs=1)
    answer = recommend(state)
    assert [item.status for item in answer.advice.ranking][-1] == "dropped"
    assert answer.advice.ranking[-1].reason.startswith("diverged: a loss or parameter was not finite")
    assert answer.advice.ranking[-1].candidate.spec.learning_rate == 1e30
    assert any("diverged" in line for line in answer.why)
    assert open_study(tmp_path / "race").study.race == state.study.race


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--total-timesteps", "1e5"], "advise needs --env"),
        (["--env", "CartPole-v1"], "advise needs --total-timesteps"),
        (["--env", "NoSuch-v0", "--total-timesteps", "1e5"], "NoSuch-v0"),
        (["--env", "CartPole-v1", "--total-timesteps", "100"], "too small for a race"),
        (["--env", "CartPole-v1", "--total-timesteps", "100", "--shapes", "64x32", "8x32"], "less than one rollout"),
        (["--env", "CartPole-v1", "--total-timesteps", "100", "--shapes", "64x32", "8x32"], "None of 2 shapes can be"),
        (["--env", "CartPole-v1", "--total-timesteps", "1e3", "--shapes", "64x32", "8x32"], "1 of 2 shapes can be"),
        (["--env", "CartPole-v1", "--total-timesteps", "1e5", "--shapes", "8x8", "1000000x1000"], "1 of 2 shapes can"),
        (["--env", "CartPole-v1", "--total-timesteps", "1e5", "--shapes", "64x32"], "One shape cannot be raced"),
        (["--env", "CartPole-v1", "--total-timesteps", "1e5", "--shapes", "64by32", "4x4"], "not a shape"),
        (["--env", "CartPole-v1", "--total-timesteps", "1e5", "--budget", "0.001"], "budget 0.001"),
        (["--env", "CartPole-v1", "--total-timesteps", "1e5", "--budget", "2"], "budget 2"),
        (["--env", "CartPole-v1", "--total-timesteps", "1e5", "--num-envs", "8"], "set by the race"),
        (["--env", "CartPole-v1", "--total-timesteps", "1e5", "--algo", "sac"], "replay buffer"),
        (["--env", "CartPole-v1", "--total-timesteps", "1e5", "--to", "nolib"], "nolib"),
        (["--env", "CartPole-v1", "--total-timesteps", "1e5", "--shapes", "2x8", "4x8", "--max-envs", "8"], "max-envs"),
    ],
)
def test_a_wrong_request_is_one_message(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", *flags, "--out", str(tmp_path / "race")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "race").exists()


def test_planned_candidates_leave_enough_updates() -> None:
    from rollshape.studies.racing.candidates import planned_shapes
    from rollshape.training.spec import Spec

    for total in (100_000, 1_000_000, 50_000_000):
        shapes = planned_shapes(Spec(total_timesteps=total))
        assert 10 <= len(shapes) <= 25
        assert all(20 <= total // (n * t) <= 16_384 for n, t in shapes)
    assert max(n for n, _ in planned_shapes(Spec(total_timesteps=10**6), 40)) == 32


def test_variations() -> None:
    from rollshape.studies.racing.candidates import candidate_points
    from rollshape.training.spec import Spec

    points = candidate_points(Spec(), [(64, 64)], ["minibatch", "lr"])
    shape = {"num_envs": 64, "num_steps": 64}
    assert points == (shape, {**shape, "minibatch_size": 256}, {**shape, "learning_rate": 6e-4})
    with pytest.raises(RequestError, match="Cannot vary"):
        rollshape.advise("CartPole-v1", 100_000, vary=["epochs"])
