"""A study on a real Ray: bit for bit what the local engine gives, also when a worker is killed in mid-trial."""

import os
import signal
from pathlib import Path

import pytest

pytest.importorskip("ray")
pytest.importorskip("jax")

import psutil

from rollshape.studies.events import Event
from rollshape.studies.run import run_study
from rollshape.studies.study_file import study_from_dict
from rollshape.training.reproduce import first_difference
from rollshape.training.rundir import RunDirectory

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

STUDY = study_from_dict(
    {
        "env": "FrozenLake-v1",
        "fixed": {
            "num_steps": 16,
            "num_epochs": 1,
            "num_minibatches": 1,
            "total_timesteps": 1_000_000,
            "hidden_sizes": [4],
        },
        "points": [{"num_envs": 8}],
        "seeds": 2,
    },
    "tiny",
)


def trainers() -> list[psutil.Process]:
    """Ray names its processes after the actor."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if "ray::RemoteTrainer" in " ".join(process.info["cmdline"] or ())
    ]


def test_a_killed_worker_is_replaced_and_the_results_are_the_local_ones(tmp_path: Path) -> None:
    local = run_study(STUDY, tmp_path / "local")
    happened: list[Event] = []

    def watch(event: Event) -> None:
        happened.append(event)
        if event.kind == "row" and not any(other.kind == "retry" for other in happened):
            os.kill(trainers()[0].pid, signal.SIGKILL)

    remote = run_study(STUDY, tmp_path / "ray", engine="ray", jobs=1, on_event=watch)
    assert [event.kind for event in happened if event.kind in ("retry", "end")] == ["retry", "end", "end"]
    assert remote.is_finished
    for trial in local.trials:
        rows = [list(RunDirectory(each.store.run_dir(trial.id)).rows()) for each in (local, remote)]
        assert len(rows[0]) > 5
        assert first_difference(*rows) == ""
        assert local.results[trial.id].summary["final_return"] == remote.results[trial.id].summary["final_return"]
        assert (remote.store.run_dir(trial.id) / "checkpoints").exists()
    assert not trainers()
