"""A study on real workers: killed anywhere it ends the same, and nothing that has ended is run again."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jax
import psutil
import pytest

from rollshape.errors import RequestError
from rollshape.geometry.machine import Machine
from rollshape.studies.engines import local, pool
from rollshape.studies.engines.local import count_workers, least_pinned_cores
from rollshape.studies.engines.pool import EngineOptions, TrialQueue
from rollshape.studies.events import Event
from rollshape.studies.run import StudyState, open_study, run_study
from rollshape.studies.store import Store
from rollshape.studies.study_file import read_study, study_from_dict
from rollshape.studies.trials import expand
from rollshape.training.reproduce import first_difference
from rollshape.training.rundir import RunDirectory
from rollshape.training.setup import plan_run

TINY = """
title: Tiny
env: FrozenLake-v1
fixed: {num_epochs: 1, num_minibatches: 1, total_timesteps: 120_000, hidden_sizes: [4], checkpoint_every: 100}
points:
  - {num_envs: 8, num_steps: 16}
  - {num_envs: 3000, rollout_size: 128}
seeds: 3
"""
SECONDS = 90


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("studies") / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def unbroken(tiny: Path) -> StudyState:
    return run_study(read_study(str(tiny)), tiny.parent / "unbroken")


def assert_identical(path: Path, unbroken: StudyState) -> None:
    outcome = open_study(path)
    assert outcome.is_finished
    for trial in unbroken.trials:
        rows = [list(RunDirectory(each.store.run_dir(trial.id)).rows()) for each in (unbroken, outcome)]
        assert rows[0]
        assert first_difference(*rows) == ""
        scores = [each.results[trial.id].summary["final_return"] for each in (unbroken, outcome)]
        assert scores[0] == scores[1]


def counted(path: Path, kind: str) -> Counter[str]:
    return Counter(event["trial"] for event in Store(path).journal.events() if event["event"] == kind)


def start(tiny: Path, out: Path, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rollshape.cli", "study", str(tiny), "--out", str(out), *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def under_way(path: Path) -> list[tuple[str, int]]:
    """(trial, pid of its worker) of trials that have begun, made some rows, and not ended."""
    events = list(Store(path).journal.events())
    ended = {event["trial"] for event in events if event["event"] == "end"}
    begun = {event["trial"]: event["pid"] for event in events if event["event"] == "begin"}
    rows = {trial: RunDirectory(Store(path).run_dir(trial)).rows() for trial in begun}
    return [(trial, pid) for trial, pid in begun.items() if trial not in ended and next(rows[trial], None)]


def test_a_whole_study(unbroken: StudyState) -> None:
    assert unbroken.is_finished
    assert len(unbroken.trials) == 3
    assert [point.point["num_envs"] for point in unbroken.illegal] == [3000]
    first = RunDirectory(unbroken.store.run_dir(unbroken.trials[0].id))
    rows = list(first.rows())
    assert [row["timesteps"] for row in rows][:3] == [unbroken.expansion.evaluate_every * i for i in (1, 2, 3)]
    every = unbroken.expansion.evaluate_every
    assert [row["eval_return"] is not None for row in rows] == [row["timesteps"] % every == 0 for row in rows]
    document = unbroken.to_dict()
    assert json.loads(json.dumps(document)) == document
    assert {trial["state"] for trial in document["trials"]} == {"done"}


def test_a_finished_study_starts_nothing(unbroken: StudyState) -> None:
    before = unbroken.store.journal.path.read_bytes()
    happened: list[Event] = []
    again = run_study(unbroken.study, unbroken.store.path, on_event=happened.append)
    assert again.results == unbroken.results
    assert happened == []
    assert unbroken.store.journal.path.read_bytes() == before


def test_a_killed_worker_costs_one_retry(unbroken: StudyState, tiny: Path, tmp_path: Path) -> None:
    happened: list[Event] = []

    def watch(event: Event) -> None:
        happened.append(event)
        if event.kind == "row" and not any(other.kind == "retry" for other in happened):
            for trial, pid in under_way(tmp_path / "x"):
                if trial == event.trial and psutil.pid_exists(pid):
                    os.kill(pid, signal.SIGKILL)

    run_study(read_study(str(tiny)), tmp_path / "x", jobs=1, on_event=watch)
    retried = [event for event in happened if event.kind == "retry"]
    assert len(retried) == 1
    assert "SIGKILL" in retried[0].reason
    assert_identical(tmp_path / "x", unbroken)
    assert counted(tmp_path / "x", "begin")[retried[0].trial] == 2
    assert set(counted(tmp_path / "x", "end").values()) == {1}


def assert_saved(out: Path) -> None:
    """Check that an interrupted trial has been saved where it was, and not only at its last regular checkpoint."""
    for trial, _ in under_way(out):
        directory = RunDirectory(Store(out).run_dir(trial))
        assert directory.read()["status"] == "interrupted"


def test_interrupted_and_killed_it_goes_on_to_the_identical_end(
    unbroken: StudyState, tiny: Path, tmp_path: Path
) -> None:
    out = tmp_path / "x"
    study = start(tiny, out, "--jobs", "1")
    wait_for(lambda: bool(under_way(out)))
    study.send_signal(signal.SIGINT)
    _, errors = study.communicate(timeout=SECONDS)
    assert study.returncode == 130
    assert "Run the same command again to resume" in errors
    assert "Traceback" not in errors
    assert_saved(out)

    study = start(tiny, out, "--jobs", "1", "--json")
    wait_for(lambda: bool(under_way(out)) and psutil.pid_exists(under_way(out)[0][1]))
    os.kill(under_way(out)[0][1], signal.SIGTERM)  # Slurm and systemd terminate all processes
    study.terminate()
    printed, errors = study.communicate(timeout=SECONDS)
    assert study.returncode == 143
    document = json.loads(printed)
    assert document["status"] == "interrupted"
    assert len(document["trials"]) == 3
    assert "Run the same command again to resume" in errors
    assert "Traceback" not in errors
    assert_saved(out)

    study = start(tiny, out)
    wait_for(lambda: len(counted(out, "end")) >= 1 and bool(under_way(out)))
    ended, orphans = counted(out, "end"), [pid for _, pid in under_way(out)]
    study.kill()
    study.communicate()
    wait_for(lambda: not any(psutil.pid_exists(pid) for pid in orphans))
    begun = counted(out, "begin")

    run_study(read_study(str(tiny)), out)
    assert_identical(out, unbroken)
    assert set(counted(out, "end").values()) == {1}
    assert all(counted(out, "begin")[trial] == begun[trial] for trial in ended)  # nothing that has ended is repeated


STARTER = """
import sys
from rollshape.cli import main
print("ready", file=sys.stderr, flush=True)  # an interrupt before this is Python's own
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("delay", "number", "code"),
    [(0.2, signal.SIGINT, 130), (0.6, signal.SIGTERM, 143), (1.2, signal.SIGINT, 130), (2.0, signal.SIGTERM, 143)],
)
def test_a_signal_while_the_command_starts(
    delay: float, number: signal.Signals, code: int, tiny: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", STARTER, "study", str(tiny), "--out", str(tmp_path / "x"), "--json"]
    study = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert study.stderr is not None
    assert study.stderr.readline() == "ready\n"
    time.sleep(delay)
    study.send_signal(number)
    out, errors = study.communicate(timeout=SECONDS)
    assert study.returncode == code
    assert "Traceback" not in errors
    document = json.loads(out)
    assert document.get("status") == "interrupted" or document["error"]["rule"] == "interrupted"


def test_the_folder_of_a_study_is_removed_while_it_runs(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "x"
    study = start(tiny, out, "--json")
    wait_for(lambda: bool(under_way(out)))
    workers = psutil.Process(study.pid).children()
    out.rename(tmp_path / "elsewhere")
    printed, errors = study.communicate(timeout=SECONDS)
    assert study.returncode == 1
    error = json.loads(printed)["error"]
    assert error["rule"] == "disk"
    assert "was removed or moved while the study was running" in error["message"]
    assert "Traceback" not in errors
    assert not any(worker.is_running() for worker in workers)
    assert not out.exists()


def test_the_folder_of_a_trial_is_removed_while_it_runs(unbroken: StudyState, tiny: Path, tmp_path: Path) -> None:
    removed: list[str] = []

    def watch(event: Event) -> None:
        if event.kind == "row" and not removed:
            removed.append(event.trial)
            shutil.rmtree(tmp_path / "x" / "trials" / event.trial)

    state = run_study(read_study(str(tiny)), tmp_path / "x", jobs=1, on_event=watch)
    result = state.results[removed[0]]
    assert result.state == "failed"
    assert "metrics.jsonl" in result.reason
    run_study(read_study(str(tiny)), tmp_path / "x", jobs=1)
    assert_identical(tmp_path / "x", unbroken)


def test_two_processes_share_a_study(unbroken: StudyState, tiny: Path, tmp_path: Path) -> None:
    other = start(tiny, tmp_path / "x", "--jobs", "1", "--json")
    run_study(read_study(str(tiny)), tmp_path / "x", jobs=1)
    out, errors = other.communicate(timeout=SECONDS)
    assert other.returncode == 0, errors
    assert len(json.loads(out)["trials"]) == 3
    assert_identical(tmp_path / "x", unbroken)
    assert set(counted(tmp_path / "x", "end").values()) == {1}
    assert set(counted(tmp_path / "x", "begin").values()) == {1}


def test_what_goes_wrong_is_a_state_and_not_the_end(tiny: Path, tmp_path: Path) -> None:
    fixed = read_study(str(tiny)).fixed | {"num_envs": 8, "num_steps": 16}
    points = [
        {"learning_rate": 3e-4},
        {"learning_rate": 1e30, "max_grad_norm": None},
        {"env_kwargs": {"size": "9x9"}},
    ]
    study = study_from_dict({"fixed": fixed, "points": points, "seeds": [0]}, "wrong")
    grown = study_from_dict({"fixed": fixed, "points": points, "seeds": [0, 7]}, "wrong")
    store = Store(tmp_path / "x")
    store.begin(study)
    blocked = store.run_dir(expand(grown).trials[1].id)
    blocked.write_text("a file where the run directory should be")
    outcome = run_study(grown, tmp_path / "x", jobs=1)
    states = [(outcome.results[trial.id].state, outcome.results[trial.id].cause) for trial in outcome.trials]
    assert states == [("done", ""), ("failed", "refused"), ("diverged", "diverged"), ("diverged", "diverged")]
    failed, diverged = (outcome.results[outcome.trials[i].id] for i in (1, 2))
    assert "cannot be a run directory" in failed.reason
    assert "not finite after" in diverged.reason
    assert [(point.rule, point.point["env_kwargs"]) for point in outcome.illegal] == [("choice", {"size": "9x9"})]
    assert not outcome.is_finished
    blocked.unlink()  # mended: a failed trial is tried again, a diverged one is an end
    again = run_study(grown, tmp_path / "x", jobs=1)
    assert again.is_finished
    assert counted(tmp_path / "x", "begin")[outcome.trials[2].id] == 1


def test_a_study_that_cannot_be_run_at_all_is_refused_and_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="CartPole-v9"):
        run_study(study_from_dict({"env": "CartPole-v9", "grid": {"num_envs": [2]}}, "x"), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_worker_that_keeps_dying_fails_its_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jax.devices()  # before the flag is set: it is for the workers only
    monkeypatch.setenv("XLA_FLAGS", "--xla_no_such_flag=1")  # XLA ends the process
    study = study_from_dict({"env": "FrozenLake-v1", "grid": {"num_envs": [8]}, "seeds": 1}, "x")
    happened: list[Event] = []
    outcome = run_study(study, tmp_path / "x", on_event=happened.append)
    result = outcome.results[outcome.trials[0].id]
    assert (result.state, result.cause) == ("failed", "worker died")
    assert "died 2 times" in result.reason
    assert "xla_no_such_flag" in result.reason
    assert [event.kind for event in happened if event.kind in ("retry", "end")] == ["retry", "end"]


def test_no_two_workers_probe_at_once_while_there_is_other_work() -> None:
    study = {"grid": {"num_envs": [2, 4]}, "seeds": 2, "probe": {"at": [0.5]}}
    agenda = TrialQueue(expand(study_from_dict(study, "x")).trials)
    first = agenda.take("", set())
    assert first is not None
    assert first.probe_at
    second = agenda.take("", {first.group}, is_probing=True)
    assert second is not None
    assert not second.probe_at
    third = agenda.take(second.group, {first.group}, is_probing=True)  # nothing else is left of its shape
    assert third is not None
    assert third.probe_at


def test_workers_stay_with_a_shape_and_start_on_different_ones() -> None:
    trials = expand(study_from_dict({"grid": {"num_envs": [2, 4]}, "seeds": 3}, "x")).trials
    agenda = TrialQueue(trials)
    first = agenda.take("", set())
    assert first is not None
    second = agenda.take("", {first.group})
    assert second is not None
    assert second.group != first.group
    third = agenda.take(first.group, {second.group})
    assert third is not None
    assert third.group == first.group
    rest = [agenda.take(second.group, {first.group}) for _ in range(3)]
    assert [trial.group == second.group for trial in rest if trial] == [True, True, False]
    assert agenda.take("", set()) is None


def test_a_trial_of_another_process_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "RETRY_SECONDS", 0.5)
    trial = expand(study_from_dict({"grid": {"num_envs": [2]}, "seeds": 1}, "x")).trials[0]
    agenda = TrialQueue([])
    agenda.postpone(trial)
    assert agenda
    assert agenda.take("", set()) is None
    time.sleep(0.55)
    assert agenda.take("", set()) == trial
    assert not agenda


SMALL = """
env: {env}
fixed: {{num_steps: 8, num_epochs: 1, num_minibatches: 1, total_timesteps: 640, hidden_sizes: [4]}}
points: [{{num_envs: 8}}]
seeds: 1
"""


def run_in(folder: Path, env: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a small study in a folder, as the installed script does it (`-P`)."""
    (folder / "small.yaml").write_text(SMALL.format(env=env))
    command = [sys.executable, "-P", "-m", "rollshape.cli", "study", "small.yaml", "--json", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_workers_do_not_run_modules_of_the_current_directory(tmp_path: Path) -> None:
    for name in ("equinox", "json", "runpy", "rollshape"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / name)!r} + '.ran', 'w')\nraise ImportError\n")
    outcome = run_in(tmp_path, "FrozenLake-v1")
    assert list(tmp_path.glob("*.ran")) == []
    assert outcome.returncode == 0, outcome.stderr


ENV_MODULE = """
import gymnasium
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
gymnasium.register("Lake-v0", FrozenLakeEnv, max_episode_steps=20)
"""


def test_a_module_that_the_command_line_names_is_imported_by_workers_too(tmp_path: Path) -> None:
    (tmp_path / "lakes.py").write_text(ENV_MODULE)
    refused = run_in(tmp_path, "lakes:Lake-v0")  # a file of somebody else may not choose what is executed
    assert refused.returncode == 2
    assert json.loads(refused.stdout)["error"]["rule"] == "trust"
    outcome = run_in(tmp_path, "lakes:Lake-v0", "--env", "lakes:Lake-v0")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_workers_go_where_fewest_are_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = sorted(os.sched_getaffinity(0))
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(psutil, "process_iter", lambda: [psutil.Process(sleeper.pid)])  # other tests pin theirs too
    try:
        others = least_pinned_cores(len(cores))
        os.sched_setaffinity(sleeper.pid, {others[0]})
        if len(cores) > 1:
            assert least_pinned_cores(1) != [others[0]]
        assert sorted(least_pinned_cores(len(cores))) == cores
        assert len(least_pinned_cores(3 * len(cores))) == 3 * len(cores)
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize(
    ("jobs", "num_trials", "available", "count", "note"),
    [
        (None, 9, 8 * 10**9, 4, ""),
        (None, 9, None, 4, ""),
        (None, 2, 2 * 10**9, 2, ""),
        (None, 9, 25 * 10**8, 2, "4 workers need up to 4 GB of memory, 2.5 GB are available. Only 2 of them will be"),
        (None, 9, 10**8, 1, "Only 1 of them will be started."),
        (3, 9, 25 * 10**8, 3, "3 workers need up to 3 GB of memory, 2.5 GB are available. --jobs 2 needs 2 GB."),
        (1, 9, 10**8, 1, "1 worker needs up to 1 GB of memory, 100 MB are available."),
    ],
)
def test_workers_that_fit_into_the_available_memory(
    jobs: int | None,
    num_trials: int,
    available: int | None,
    count: int,
    note: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "machine", lambda: Machine(cores=4, memory_bytes=10**10))
    monkeypatch.setattr(local, "available_memory", lambda: available)
    happened: list[Event] = []
    assert count_workers(EngineOptions(jobs, peak_bytes=10**9), num_trials, happened.append) == count
    assert [event.kind for event in happened] == (["note"] if note else [])
    assert all(note in event.reason for event in happened)


def test_the_engine_knows_the_memory_of_the_largest_trial(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: list[EngineOptions] = []
    monkeypatch.setattr(
        "rollshape.studies.run.ENGINES",
        {"local": pool.Engine(local.check, lambda _, __, given, *___: options.append(given))},
    )
    state = run_study(read_study(str(tiny)), tiny.parent / "planned")
    plans = [plan_run(trial.spec).memory for trial in state.trials]
    assert options[0].peak_bytes == max(memory.peak_bytes for memory in plans if memory is not None)
