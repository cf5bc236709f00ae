"""A resume verifies what is on disk, falls back to the previous good checkpoint, and changes nothing it cannot use."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from rollshape.errors import RequestError, RunError
from rollshape.training import checkpoint
from rollshape.training.reproduce import first_difference
from rollshape.training.run import TrainedRun, train
from rollshape.training.rundir import RunDirectory
from rollshape.training.setup import open_run

SMALL: dict[str, Any] = {
    "env": "CartPole-v1", "num_envs": 4, "num_steps": 8, "num_epochs": 1, "total_timesteps": 4 * 8 * 20,
    "hidden_sizes": (8,), "log_every": 1, "checkpoint_every": 4,
}  # fmt: skip


def files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def assert_identical(first: Path, second: Path) -> None:
    assert first_difference(*(list(RunDirectory(path).rows()) for path in (first, second))) == ""
    states = [jax.tree.leaves(open_run(path)[1]) for path in (first, second)]
    for old, new in zip(*states, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    return train(out=tmp_path_factory.mktemp("runs") / "unbroken", **SMALL)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that ended after update 14, with the checkpoints of updates 8 and 12."""
    out = tmp_path_factory.mktemp("runs") / "stopped"

    def stop(row: dict[str, Any], _: Any) -> None:
        if row["update"] == 14:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(out=out, on_row=stop, **SMALL)
    return out


@pytest.fixture
def run(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "run"))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [flip, truncate, lambda path: path.write_bytes(b""), Path.unlink])
def test_a_damaged_checkpoint_is_set_aside_and_the_previous_one_used(
    damage: Callable[[Path], None], run: Path, unbroken: TrainedRun
) -> None:
    newest, notes = run / "checkpoints" / "000000012.eqx", list[str]()
    damage(newest)
    is_lost = not newest.exists()
    content = b"" if is_lost else newest.read_bytes()
    again = train(out=run, resume=True, on_note=notes.append, **SMALL)
    assert_identical(unbroken.path, run)
    if not is_lost:
        assert notes == again.summary["notes"] == RunDirectory(run).read()["notes"]
        assert "000000012.eqx is damaged and was renamed" in notes[0]
        assert "continues after update 8" in notes[0]
        assert (run / "checkpoints" / "000000012.eqx.damaged").read_bytes() == content


def test_without_a_callback_a_note_is_a_warning(run: Path) -> None:
    flip(run / "checkpoints" / "000000012.eqx")
    with pytest.warns(RuntimeWarning, match="is damaged"):
        train(out=run, resume=True, **SMALL)


def test_if_all_checkpoints_are_damaged_nothing_is_changed(run: Path) -> None:
    for path in checkpoint.stored(run / "checkpoints"):
        flip(path)
    before = files(run)
    with pytest.raises(RequestError, match=r"000000012\.eqx, 000000008\.eqx") as caught:
        train(out=run, resume=True, **SMALL)
    assert "another --out" in caught.value.fix
    assert files(run) == before


def test_other_commands_refuse_a_damaged_checkpoint(run: Path) -> None:
    flip(run / "checkpoints" / "000000012.eqx")
    with pytest.raises(RequestError, match="damaged") as caught:
        open_run(run)
    assert "it has 8" in caught.value.fix
    assert int(open_run(run, 8)[1].update) == 8


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (lambda lines: [*lines[:9], lines[9][:40] + "\n", *lines[10:]], "line 10 is not a row"),
        (lambda lines: [*lines[:9], *lines[10:]], "the row of update 10 is missing"),
        (lambda lines: [*lines[:9], lines[9].replace('"timesteps": 320', '"timesteps": 321'), *lines[10:]], "changed"),
        (lambda lines: lines[:5], "missing"),
        (lambda lines: lines[::-1], "line 2 repeats update 13 or is out of order"),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_rewritten(
    edit: Callable[[list[str]], list[str]], problem: str, run: Path
) -> None:
    metrics = run / "metrics.jsonl"
    metrics.write_text("".join(edit(metrics.read_text().splitlines(keepends=True))))
    before = files(run)
    with pytest.raises(RequestError, match=problem) as caught:
        train(out=run, resume=True, **SMALL)
    assert caught.value.rule == "metrics"
    assert files(run) == before


def test_rows_of_an_unfinished_run_are_verified_up_to_its_checkpoint(run: Path) -> None:
    metrics = run / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    assert len(list(RunDirectory(run).rows())) == 14
    metrics.write_text("".join([*lines[:3], *lines[4:]]))
    with pytest.raises(RequestError, match="the row of update 4 is missing"):
        list(RunDirectory(run).rows())
    metrics.write_text("".join(lines[:13]))  # the checkpoint is of update 12
    assert len(list(RunDirectory(run).rows())) == 13


def test_bad_rows_after_the_checkpoint_are_trained_again(run: Path, unbroken: TrainedRun) -> None:
    metrics = run / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(lines[:12]) + lines[13] + "torn")
    train(out=run, resume=True, **SMALL)
    assert_identical(unbroken.path, run)


def test_a_changed_run_json_is_refused(run: Path) -> None:
    source = run / "run.json"
    source.write_text(source.read_text().replace('"learning_rate": ', '"learning_rate": 1'))
    before = files(run)
    for act in (lambda: train(out=run, resume=True, **SMALL), lambda: open_run(run)):
        with pytest.raises(RequestError, match="changed after it was written"):
            act()
    assert files(run) == before


def test_the_rows_of_a_finished_run_are_verified(unbroken: TrainedRun, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(unbroken.path, tmp_path / "copied"))
    flip(copied / "metrics.jsonl")
    with pytest.raises(RequestError) as caught:
        train(out=copied, resume=True, **SMALL)
    assert caught.value.rule == "metrics"


def test_a_second_process_is_refused_with_the_pid_of_the_first(run: Path) -> None:
    before = files(run)
    with RunDirectory(run).opened(), pytest.raises(RequestError, match=f"in use by process {os.getpid()} on") as caught:
        train(out=run, resume=True, **SMALL)
    assert caught.value.rule == "owner"
    assert {name: content for name, content in files(run).items() if name != ".lock"} == {
        name: content for name, content in before.items() if name != ".lock"
    }


def test_two_threads_do_not_share_a_directory(tmp_path: Path) -> None:
    second: list[BaseException] = []

    def start_another(row: dict[str, Any], _: Any) -> None:
        if row["update"] == 3:
            thread = threading.Thread(target=attempt)
            thread.start()
            thread.join()

    def attempt() -> None:
        try:
            train(out=tmp_path / "x", resume=True, **SMALL)
        except RequestError as error:
            second.append(error)

    assert train(out=tmp_path / "x", on_row=start_another, **SMALL).status == "done"
    assert len(second) == 1
    assert "in use by process" in str(second[0])
    assert [row["update"] for row in RunDirectory(tmp_path / "x").rows()] == list(range(1, 21))


@pytest.mark.parametrize("victim", ["", "metrics.jsonl", "checkpoints"])
def test_files_removed_while_the_run_is_running(victim: str, tmp_path: Path) -> None:
    out = tmp_path / "x"

    def remove(row: dict[str, Any], _: Any) -> None:
        if row["update"] == 6:
            target = out / victim
            target.unlink() if target.is_file() else shutil.rmtree(target)

    with pytest.raises(RunError, match=r"removed or moved|changed by another program"):
        train(out=out, on_row=remove, **SMALL)


CHILD = """
import json, sys
from rollshape.cli import main
print("imported", file=sys.stderr, flush=True)
sys.exit(main(["train", *json.loads(sys.argv[1])]))
"""
LONG = ["--env", "CartPole-v1", "--num-envs", "4", "--num-steps", "8", "--num-epochs", "1", "--hidden-sizes", "8",
        "--total-timesteps", "30000000", "--log-every", "20"]  # fmt: skip


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_the_state_and_prints_the_document(number: signal.Signals, code: int, tmp_path: Path) -> None:
    out = tmp_path / "x"
    command = [sys.executable, "-c", CHILD, json.dumps([*LONG, "--out", str(out), "--json"])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (out / "metrics.jsonl").exists():
        time.sleep(0.01)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    assert json.loads(stdout)["status"] == "interrupted"
    assert "Traceback" not in stderr
    directory = RunDirectory(out)
    saved = checkpoint.latest(directory.checkpoints)
    assert saved is not None
    assert checkpoint.update_of(saved) == list(directory.rows())[-1]["update"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_during_startup_is_one_message(number: signal.Signals, code: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, json.dumps([*LONG, "--out", str(tmp_path / "x"), "--json"])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "imported\n"
    time.sleep(0.3)  # JAX is being imported, or the run compiled
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    assert "Traceback" not in stderr
    document = json.loads(stdout)
    assert "error" not in document or document["error"]["rule"] == "interrupted"
