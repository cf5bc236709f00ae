"""`rollshape study`: what it prints, and its exit codes."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from rollshape.cli import main
from rollshape.cli.study_view import StudyView, _format_seconds
from rollshape.studies.events import Event
from rollshape.studies.metrics import MetricsRow
from rollshape.studies.run import StudyState
from rollshape.studies.store import Store, TrialResult
from rollshape.studies.study_file import study_from_dict
from rollshape.studies.trials import expand

TINY = """
title: "[bold]Tiny[/]"
env: FrozenLake-v1
fixed: {num_steps: 8, num_epochs: 1, num_minibatches: 1, total_timesteps: 640, hidden_sizes: [4]}
points: [{num_envs: 8}, {num_envs: 8, rollout_size: 63}]
seeds: 2
"""


def test_a_study_is_shown_then_told_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tiny.yaml"
    file.write_text(TINY)
    command = ["study", str(file), "--out", str(tmp_path / "out"), "--jobs", "1"]
    assert main(command) == 0
    shown = capsys.readouterr()
    assert "[bold]Tiny[/]: 2 trials, 0 already finished" in shown.err
    assert "[2/2]" in shown.err
    assert "num_envs 8" in shown.out
    assert "2/2" in shown.out
    assert "illegal num_envs 8, rollout_size 63" in shown.out
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [trial["state"] for trial in document["trials"]] == ["done", "done"]
    (point,) = document["points"]
    assert (point["num_envs"], point["num_steps"], point["done"]) == (8, 8, 2)
    assert point["final_return"]["method"] == "mean"
    assert document["illegal"][0]["rule"] == "contradiction"
    assert document["report"]["verdict"] == "not settled"
    assert shown.out.strip().endswith("report.html")
    runs = [event for event in Store(tmp_path / "out").journal.events() if event["event"] == "run"]
    assert [event["command"].split()[:2] for event in runs] == [["rollshape", "study"]]  # the second had nothing to do


def test_without_ray_nothing_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rollshape.studies.engines.ray.find_spec", lambda _: None)
    out = tmp_path / "out"
    assert main(["study", "tradeoff", "--engine", "ray", "--out", str(out)]) == 2
    assert "pip install 'rollshape[ray]'" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["tradeof"], "Did you mean tradeoff?"),
        (["nowhere.yaml"], "Cannot read nowhere.yaml"),
        (["tradeoff", "--address", "here"], "--engine ray"),
        (["tradeoff", "--jobs", "0"], "jobs must be at least 1"),
        (["tradeoff", "--seeds", "0"], "--seeds"),
        (["tradeoff", "--env", "NoSuch-v0"], "NoSuch-v0"),
        (["tradeoff", "--engine", "slurm"], "one of local, ray"),
    ],
)
def test_a_wrong_request_is_told_and_starts_nothing(
    argv: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["study", *argv]) == 2
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_live_table(tmp_path: Path) -> None:
    study = study_from_dict({"grid": {"num_envs": [64, 128]}, "fixed": {"num_steps": 32}, "seeds": 1}, "x")
    expansion, view = expand(study), StudyView()
    results = {trial.id: TrialResult("pending") for trial in expansion.trials}
    view.on_start(StudyState(study, Store(tmp_path), expansion, expansion.trials, (), results))
    first, second = (trial.id for trial in expansion.trials)

    def drawn() -> str:
        console = Console(width=150)
        with console.capture() as seen:
            console.print(view._table())
        return seen.get()

    view.on_event(Event("begin", first))
    assert "compiling" in drawn()
    row = {"update": 100, "timesteps": 204_800, "episodic_return": 20.0, "eval_return": 123.4, "sps": 98_765}
    view.on_event(Event("row", first, row=MetricsRow.from_dict(row)))
    assert all(word in drawn() for word in (first, "64×32", "123.4", "98,765", "0 of 2 finished"))
    view.on_event(Event("end", first, result=TrialResult("done", summary={"final_return": 1.0})))
    view.on_event(Event("begin", second))
    view.on_event(Event("end", second, result=TrialResult("failed", "error", "why")))
    assert first not in drawn()
    assert "1 of 2 finished, 1 failed" in drawn()
    assert [_format_seconds(seconds) for seconds in (None, 5, 65, 3725)] == ["–", "0:05", "1:05", "1:02:05"]
