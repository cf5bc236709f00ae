"""A study on a real Ray: bit for bit what the local engine gives, also when a worker is killed in mid-trial."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if not find_spec("ray") or not find_spec("jax"):  # the engine imports Ray itself, after it has set its variables
    pytest.skip("needs ray and jax", allow_module_level=True)

import psutil

import rollshape
from rollshape.studies.events import Event
from rollshape.studies.run import StudyState, open_study, run_study
from rollshape.studies.store import Store
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


SECONDS = 120


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> StudyState:
    return run_study(STUDY, tmp_path_factory.mktemp("studies") / "local")


def assert_identical(remote: StudyState, local: StudyState) -> None:
    assert remote.is_finished
    for trial in local.trials:
        rows = [list(RunDirectory(each.store.run_dir(trial.id)).rows()) for each in (local, remote)]
        assert len(rows[0]) > 5
        assert first_difference(*rows) == ""
        assert local.results[trial.id].summary["final_return"] == remote.results[trial.id].summary["final_return"]
        assert (remote.store.run_dir(trial.id) / "checkpoints").exists()


def trainers() -> list[psutil.Process]:
    """Ray names its processes after the actor."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if "ray::RemoteTrainer" in " ".join(process.info["cmdline"] or ())
    ]


def test_a_killed_worker_is_replaced_and_the_results_are_the_local_ones(local: StudyState, tmp_path: Path) -> None:
    happened: list[Event] = []

    def watch(event: Event) -> None:
        happened.append(event)
        if event.kind == "row" and not any(other.kind == "retry" for other in happened):
            os.kill(trainers()[0].pid, signal.SIGKILL)

    remote = run_study(STUDY, tmp_path / "ray", engine="ray", jobs=1, on_event=watch)
    assert [event.kind for event in happened if event.kind in ("retry", "end")] == ["retry", "end", "end"]
    assert_identical(remote, local)
    wait_for(lambda: not trainers())


LAKES = """
import os, time, gymnasium
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

class SlowLake(FrozenLakeEnv):
    def step(self, action):
        time.sleep(float(os.environ.get("SLOW_LAKE", "0")))
        return super().step(action)

gymnasium.register("SlowLake-v0", SlowLake, max_episode_steps=20)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a study of a slow environment, and with modules that must not be run."""
    for name in ("equinox", "ray", "rollshape"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / name)!r} + '.ran', 'w')\nraise ImportError\n")
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "lakes.py").write_text(LAKES)
    fixed = STUDY.fixed | {"env": "lakes:SlowLake-v0", "total_timesteps": 16 * 8 * 20}
    (tmp_path / "tiny.json").write_text(json.dumps(STUDY.to_dict() | {"fixed": fixed}))
    return tmp_path


def start(folder: Path, *flags: str, sleep: float = 0.0) -> subprocess.Popen[str]:
    """Start the study in its folder; every step of its environments sleeps for so many seconds."""
    options = ["--env", "lakes:SlowLake-v0", "--jobs", "1", "--json"]  # a study file alone may not choose a module
    command = [sys.executable, "-P", "-m", "rollshape.cli", "study", "tiny.json", *options, *flags]
    paths = [*sys.path, str(folder / "envs")]
    study = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "SLOW_LAKE": str(sleep)},
    )  # fmt: skip
    STARTED.append(study)
    return study


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _stop_studies() -> Iterator[None]:
    """End the study of a test that fails, and its cluster with it."""
    yield
    for study in STARTED:
        if study.poll() is None:
            study.terminate()
            study.communicate(timeout=SECONDS)
    STARTED.clear()


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.1)


def is_training(study: subprocess.Popen[str]) -> bool:
    children = {child.pid for child in psutil.Process(study.pid).children(recursive=True)}
    return any(trainer.pid in children for trainer in trainers())


def listening_addresses(process: psutil.Process) -> set[str]:
    connections = []
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            connections += child.connections("inet")
    return {connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN}


@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_lost_cluster_ends_the_study_and_the_next_run_resumes_it(name: str, folder: Path) -> None:
    study = start(folder, "--out", "out", "--engine", "ray", sleep=0.1)
    wait_for(lambda: is_training(study))
    process = psutil.Process(study.pid)
    assert listening_addresses(process) <= {"127.0.0.1", "::ffff:127.0.0.1"}
    assert listening_addresses(process)
    [victim] = [child for child in process.children() if child.name() == name]
    assert "RAY_AUTH_TOKEN" in victim.environ()
    children, killed_at = process.children(recursive=True), time.monotonic()
    victim.kill()
    out, errors = study.communicate(timeout=SECONDS)
    assert time.monotonic() - killed_at < 60
    assert study.returncode == 1, errors
    assert out, errors  # Ray ends the process without a word if it is called after its shutdown
    error = json.loads(out)["error"]
    assert error["rule"] == "cluster"
    assert "resume" in error["fix"]
    assert "Traceback" not in errors
    wait_for(lambda: not any(child.is_running() and child.status() != "zombie" for child in children))

    for flags in (("--out", "out", "--engine", "ray"), ("--out", "local")):
        study = start(folder, *flags)
        out, errors = study.communicate(timeout=SECONDS)
        assert study.returncode == 0, errors
        assert json.loads(out)["status"] == "done"
    assert_identical(open_study(folder / "out"), open_study(folder / "local"))
    assert list(folder.glob("*.ran")) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_study(number: signal.Signals, code: int, folder: Path) -> None:
    study = start(folder, "--out", "out", "--engine", "ray", sleep=0.1)
    wait_for(lambda: is_training(study))
    os.killpg(study.pid, number)  # Slurm and systemd signal all processes, and so does Ctrl-C
    out, errors = study.communicate(timeout=SECONDS)
    assert study.returncode == code, errors
    document = json.loads(out)
    assert document["status"] == "interrupted"
    assert [trial["state"] for trial in document["trials"]] == ["pending", "pending"]
    assert "Run the same command again to resume out" in errors
    assert "Traceback" not in errors
    wait_for(lambda: not trainers())


def test_a_race_on_ray_is_the_race_on_this_machine(tmp_path: Path) -> None:
    """Answer and cost are those of the local engine; a trial that was paused continues on another worker."""
    shared: dict[str, Any] = {
        "shapes": ["4x8", "8x8", "8x16"], "budget": 0.4, "seeds": 2, "num_epochs": 1, "num_minibatches": 1,
        "hidden_sizes": (8,),
    }  # fmt: skip
    local, ray = (
        rollshape.advise("CartPole-v1", 2560, out=tmp_path / engine, engine=engine, jobs=1, **shared)
        for engine in ("local", "ray")
    )
    assert {**local.to_dict(), "out": ""} == {**ray.to_dict(), "out": ""}
    assert sorted(ends_of(local.out)) == sorted(ends_of(ray.out))

    timed = rollshape.advise(
        "CartPole-v1", 2560, out=tmp_path / "timed", engine="ray", jobs=1, objective="seconds", **shared
    )
    ends = ends_of(timed.out)
    assert len({trial for trial, _ in ends}) < len(ends), "no trial was continued"


def ends_of(study: Path) -> list[tuple[str, int]]:
    """Return (trial, timesteps) of every end that was journaled."""
    events = Store(study).journal.events()
    return [(event["trial"], event["summary"]["timesteps"]) for event in events if event["event"] == "end"]
