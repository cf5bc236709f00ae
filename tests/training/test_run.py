"""Runs repeat bit for bit, survive being killed, and learn."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from rollshape.errors import RequestError, RunError
from rollshape.training import checkpoint
from rollshape.training.compiled_driver import CompiledDriver
from rollshape.training.driver import RunState
from rollshape.training.reproduce import first_difference, reproduce
from rollshape.training.run import TrainedRun, train
from rollshape.training.rundir import RunDirectory
from rollshape.training.setup import open_run

SMALL: dict[str, Any] = {
    "env": "CartPole-v1", "num_envs": 8, "num_steps": 16, "num_epochs": 2, "total_timesteps": 8 * 16 * 30,
    "hidden_sizes": (32,), "log_every": 2, "checkpoint_every": 4,
}  # fmt: skip


def arrays(path: Path) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(open_run(path)[1])]


def assert_identical(first: Path, second: Path) -> None:
    rows = [list(RunDirectory(path).rows()) for path in (first, second)]
    assert first_difference(*rows) == ""
    for old, new in zip(arrays(first), arrays(second), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    return train(out=tmp_path_factory.mktemp("runs") / "unbroken", **SMALL)


def test_training_goes_on_in_the_memory_of_the_state_that_was_saved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saved: list[weakref.ref[np.ndarray]] = []
    save, advance = checkpoint.save, CompiledDriver.advance

    def recording_save(folder: Path, update: int, state: RunState, *rest: Any) -> Path:
        saved.extend(weakref.ref(leaf) for leaf in jax.tree.leaves(state) if leaf.size > 1)
        return save(folder, update, state, *rest)

    def checked_advance(driver: CompiledDriver, state: RunState, count: int) -> Any:
        assert all(reference() is None for reference in saved)
        return advance(driver, state, count)

    monkeypatch.setattr(checkpoint, "save", recording_save)
    monkeypatch.setattr(CompiledDriver, "advance", checked_advance)
    train(out=tmp_path / "run", **SMALL)
    assert saved


def test_a_run_directory(unbroken: TrainedRun) -> None:
    document = json.loads((unbroken.path / "run.json").read_text())
    assert document["status"] == "done"
    assert document["plan"]["num_updates"] == 30
    assert document["summary"]["final_episodes"] == 128
    rows = list(RunDirectory(unbroken.path).rows())
    assert [row["update"] for row in rows] == list(range(2, 31, 2))
    assert rows[-1]["timesteps"] == 8 * 16 * 30
    assert len(rows[0]["approx_kl_epochs"]) == 2
    assert "NaN" not in (unbroken.path / "metrics.jsonl").read_text()
    assert 0 < rows[0]["ratio_ess"] <= 1


def test_two_runs_are_identical(unbroken: TrainedRun) -> None:
    found = reproduce(unbroken.path)
    assert found.same, found.difference
    assert found.rows == 15


def test_another_seed_is_another_run(unbroken: TrainedRun, tmp_path: Path) -> None:
    other = train(out=tmp_path / "other", **{**SMALL, "seed": 1})
    assert first_difference(unbroken.metrics, other.metrics).startswith("episodic_return")


def test_the_length_of_an_interval_changes_nothing(unbroken: TrainedRun, tmp_path: Path) -> None:
    other = train(out=tmp_path / "other", **{**SMALL, "log_every": 7})
    for old, new in zip(arrays(unbroken.path), arrays(other.path), strict=True):
        np.testing.assert_array_equal(old, new)


def test_scores_at_fixed_timesteps(tmp_path: Path) -> None:
    run = train(out=tmp_path / "run", **{**SMALL, "total_timesteps": 8 * 16 * 8, "log_every": 1, "eval_every": 300})
    scored = [row["timesteps"] for row in run.metrics if row["eval_return"] is not None]
    assert scored == [384, 640, 1024]  # the first update at or past 300, 600, 900


KILLED = """
import sys, json
from rollshape.training.run import train
small = json.loads(sys.argv[2]); small["hidden_sizes"] = tuple(small["hidden_sizes"])
train(out=sys.argv[1], resume=True, **small)
"""


def last_row(out: Path) -> int:
    return max((row["update"] for row in RunDirectory(out).rows()), default=0)


def test_killed_at_any_moment_it_resumes_to_the_identical_end(unbroken: TrainedRun, tmp_path: Path) -> None:
    chance, out = random.Random(0), tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, str(out), json.dumps(SMALL)]
    kills = 0
    for _ in range(4):
        known = last_row(out)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while process.poll() is None and last_row(out) <= known and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.05))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
        with (out / "metrics.jsonl").open("a") as file:
            file.write('{"update": 9')  # a torn line, as a full disk leaves it
    assert kills > 0
    subprocess.run(command, check=True)
    assert_identical(unbroken.path, out)


def test_a_paused_run_is_the_beginning_of_the_whole_run(unbroken: TrainedRun, tmp_path: Path) -> None:
    changes: dict[str, Any] = SMALL | {"anneal_lr": True}
    whole = train(out=tmp_path / "whole", **changes)
    for until, updates in ((1, 2), (8 * 16 * 9, 10), (8 * 16 * 9, 10)):
        run = train(out=tmp_path / "parts", until=until, resume=True, **changes)
        rows = list(RunDirectory(run.path).rows())
        assert (run.status, rows[-1]["update"], run.final_return) == ("paused", updates, None)
        assert first_difference(rows, list(RunDirectory(whole.path).rows())[: len(rows)]) == ""
    assert train(out=tmp_path / "parts", resume=True, **changes).status == "done"
    assert_identical(whole.path, tmp_path / "parts")
    assert first_difference(list(RunDirectory(whole.path).rows()), list(RunDirectory(unbroken.path).rows()))


def test_ctrl_c_saves_and_the_run_goes_on_from_there(tmp_path: Path) -> None:
    long = {**SMALL, "total_timesteps": 8 * 16 * 60_000, "log_every": 50, "checkpoint_every": 60_000}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "x"), json.dumps(long)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and last_row(tmp_path / "x") == 0:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == ""
    directory = RunDirectory(tmp_path / "x")
    assert directory.read()["status"] == "interrupted"
    saved = checkpoint.latest(directory.checkpoints)
    assert saved is not None
    assert checkpoint.update_of(saved) == last_row(tmp_path / "x")  # nothing of what was logged is lost


@pytest.mark.parametrize(
    ("update", "spare", "lost", "status"),
    [(10, False, "metrics.jsonl", "running"), (12, True, "checkpoints/000000012.eqx", "failed")],
)
def test_a_full_disk_is_one_message_and_costs_nothing(
    update: int, spare: bool, lost: str, status: str, unbroken: TrainedRun, tmp_path: Path
) -> None:
    smallest = min(path.stat().st_size for path in checkpoint.stored(unbroken.path / "checkpoints"))

    def fill_up(row: dict[str, Any], _: Any) -> None:
        if row["update"] == update:
            resource.setrlimit(resource.RLIMIT_FSIZE, (smallest - 100 if spare else 1, resource.RLIM_INFINITY))

    out = tmp_path / "x"
    try:
        with pytest.raises(RunError) as caught:
            train(out=out, on_row=fill_up, **SMALL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert caught.value.rule == "disk"
    assert str(out / lost) in caught.value.message
    assert "free there" in caught.value.message
    assert "--resume" in caught.value.fix
    assert [path.name for path in sorted(out.rglob("*")) if path.is_file()] == [
        ".lock", "000000004.eqx", "000000008.eqx", "metrics.jsonl", "run.json",
    ]  # fmt: skip
    assert RunDirectory(out).read()["status"] == status
    assert train(out=out, resume=True, **SMALL).status == "done"
    assert_identical(unbroken.path, out)


def test_kept_checkpoints_are_spread_evenly_and_survive_a_resume(unbroken: TrainedRun, tmp_path: Path) -> None:
    out = tmp_path / "x"

    def stop_early(row: dict[str, Any], _: Any) -> None:
        if row["update"] == 14:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(out=out, keep_checkpoints=3, on_row=stop_early, **SMALL)
    assert [checkpoint.update_of(path) for path in checkpoint.stored(out / "checkpoints")] == [0, 10, 12]
    with pytest.raises(RequestError, match="keep_checkpoints 3, not 2"):
        train(out=out, resume=True, keep_checkpoints=2, **SMALL)
    train(out=out, resume=True, **SMALL)
    assert [checkpoint.update_of(path) for path in checkpoint.stored(out / "checkpoints")] == [0, 10, 20, 30]
    assert_identical(unbroken.path, out)
    assert int(open_run(out, 10)[1].update) == 10
    untrained = open_run(out, 0)[1].learner.network
    for old, new in zip(
        jax.tree.leaves(untrained), jax.tree.leaves(open_run(out)[0].start().learner.network), strict=True
    ):
        np.testing.assert_array_equal(old, new)
    with pytest.raises(RequestError) as caught:
        open_run(out, 11)
    assert "It has 0, 10, 20, 30" in caught.value.fix


def test_only_as_many_checkpoints_as_intervals(tmp_path: Path) -> None:
    for count in (0, 16):
        with pytest.raises(RequestError, match="between 1 and the number of logging intervals, 15"):
            train(out=tmp_path / "x", keep_checkpoints=count, **SMALL)
    assert not (tmp_path / "x").exists()


def test_a_run_that_is_done_is_left_as_it_is(unbroken: TrainedRun) -> None:
    def state() -> dict[Path, tuple[int, bytes]]:
        return {
            path: (path.stat().st_mtime_ns, path.read_bytes()) for path in unbroken.path.rglob("*") if path.is_file()
        }

    before = state()
    again = train(out=unbroken.path, resume=True, **SMALL)
    assert again == unbroken
    assert state() == before


def test_a_path_that_cannot_be_a_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "x", Path("/proc/rollshape"), tmp_path / ("x" * 300)):
        with pytest.raises(RequestError, match="cannot be a run directory"):
            train(out=out, **SMALL)
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "stray").mkdir()
    (tmp_path / "stray" / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(RequestError, match="parts of a run"):
        train(out=tmp_path / "stray", **SMALL)


@pytest.mark.parametrize(
    "text", ["", '{"spec": {', "null", "[]", "{}", '{"spec": 3, "status": "done", "versions": {}}']
)
def test_a_torn_run_json_is_one_message(text: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text)
    for act in (lambda: open_run(tmp_path), lambda: train(out=tmp_path, resume=True, **SMALL)):
        with pytest.raises(RequestError, match=r"run\.json"):
            act()
    assert (tmp_path / "run.json").read_text() == text


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_envs", "8"), ("minibatch_size", 0), ("rollout_size", 7), ("num_epochs", None), ("memory", 3)],
)
def test_a_plan_that_is_none_is_one_message(unbroken: TrainedRun, tmp_path: Path, name: str, value: Any) -> None:
    """Even where the checksum of run.json is valid."""
    shutil.copytree(unbroken.path, tmp_path / "run")
    directory = RunDirectory(tmp_path / "run")
    document = directory.read()
    document["plan"][name] = value
    directory.write(document)
    with pytest.raises(RequestError, match="does not hold a valid plan"):
        open_run(directory.path)


def test_a_loss_that_is_not_finite_is_diverged_with_the_last_good_checkpoint(tmp_path: Path) -> None:
    broken = train(out=tmp_path / "x", **{**SMALL, "learning_rate": 1e30, "max_grad_norm": None, "log_every": 1})
    assert broken.status == "diverged"
    assert broken.final_return is None
    assert json.loads((tmp_path / "x" / "run.json").read_text())["status"] == "diverged"
    for kept in (tmp_path / "x" / "checkpoints").glob("*.eqx"):
        state = checkpoint.load(kept, open_run(unbroken_like(tmp_path))[1])
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.learner.network))


def unbroken_like(tmp_path: Path) -> Path:
    return train(out=tmp_path / "like", **SMALL).path


def test_what_is_there_is_not_overwritten(unbroken: TrainedRun) -> None:
    with pytest.raises(RequestError, match="already holds a run"):
        train(out=unbroken.path, **SMALL)
    with pytest.raises(RequestError, match="another spec"):
        train(out=unbroken.path, resume=True, **{**SMALL, "seed": 5})
    with pytest.raises(RequestError, match="not a run directory"):
        open_run(unbroken.path.parent)


def test_scores_start_at_a_threshold_and_can_end_the_run(tmp_path: Path) -> None:
    spec = {**SMALL, "total_timesteps": 8 * 16 * 400, "learning_rate": 1e-2, "eval_after": 25.0, "stop_at_return": 40.0}
    run = train(out=tmp_path / "x", **spec)
    scored = [row for row in run.metrics if row["eval_return"] is not None]
    assert run.metrics[0]["eval_return"] is None
    assert scored[-1]["eval_return"] >= 40
    assert all(row["eval_return"] < 40 for row in scored[:-1])
    assert run.summary["timesteps"] < 8 * 16 * 400
    directory = RunDirectory(run.path)  # killed after the last row, before the end was written
    directory.write({**directory.read(), "status": "running"})
    assert train(out=run.path, resume=True, **spec).metrics == run.metrics
    with pytest.raises(RequestError, match="eval_after"):
        train(out=tmp_path / "y", **{**SMALL, "stop_at_return": 40.0})


@pytest.mark.parametrize(
    "changes",
    [
        {"algo": "a2c"},
        {"algo": "reinforce", "baseline": "none"},
        {"algo": "reinforce", "baseline": "mean"},
        {"algo": "reinforce", "baseline": "value"},
        {"anneal_lr": True, "clip_value": True, "normalize_advantages": "rollout", "target_kl": 0.01},
        {"adaptive_kl": 0.01, "normalize_observations": True, "normalize_rewards": True, "max_grad_norm": None},
        {"env": "Pendulum-v1", "stagger": "counter"},
        {"env": "FrozenLake-v1", "stagger": "burn-in", "normalize_advantages": "off"},
        {"num_minibatches": 3, "on_remainder": "warn"},
    ],
    ids=lambda changes: "-".join(str(value) for value in changes.values()),
)
def test_every_choice_trains(changes: dict[str, Any], tmp_path: Path) -> None:
    spec = {**SMALL, **changes, "total_timesteps": 8 * 16 * 4}
    spec |= {"num_epochs": None} if changes.get("algo") else {}
    run = train(out=tmp_path / "x", **spec)
    assert run.status == "done"
    assert np.isfinite(run.metrics[-1]["policy_loss"])
