"""A run on two real processes: bit for bit the run of one process, also when it is interrupted and resumed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

from rollshape.errors import RequestError
from rollshape.training import checkpoint
from rollshape.training.distributed import failing_together, in_any_process
from rollshape.training.reproduce import first_difference
from rollshape.training.rundir import RunDirectory

FLAGS = (
    "--env", "FrozenLake-v1", "--num-envs", "16", "--num-steps", "8", "--num-epochs", "1", "--hidden-sizes", "4",
    "--total-timesteps", "2048", "--log-every", "1", "--final-episodes", "2",
)  # fmt: skip
SECONDS = 200


def start(out: Path, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rollshape.cli", "train", *FLAGS, "--out", str(out), "--json", *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def start_two(out: Path, *flags: str) -> list[subprocess.Popen[str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    shared = ("--coordinator", address, "--num-processes", "2", *flags)
    return [start(out, *shared, "--process-id", str(index)) for index in range(2)]


def end(processes: list[subprocess.Popen[str]], code: int = 0) -> list[str]:
    """Wait for the processes; return what they printed to stdout."""
    results = [process.communicate(timeout=SECONDS) for process in processes]
    assert [process.returncode for process in processes] == [code] * len(processes), results
    return [out for out, _ in results]


def stored_arrays(run: Path) -> bytes:
    """Return the latest checkpoint without its header and checksum, which depend on the times in metrics.jsonl."""
    _, _, content = checkpoint.find(run / "checkpoints").read_bytes().partition(b"\n")
    return content[: -checkpoint.DIGEST_SIZE]


def assert_identical(one: Path, two: Path) -> None:
    rows = [list(RunDirectory(path).rows()) for path in (one, two)]
    assert len(rows[0]) == 16
    assert first_difference(*rows) == ""
    arrays = [stored_arrays(path) for path in (one, two)]
    assert arrays[0] == arrays[1]


@pytest.mark.parametrize("shards", ["8", pytest.param("2", marks=pytest.mark.slow)])
def test_two_processes_train_what_one_does(shards: str, tmp_path: Path) -> None:
    [single] = end([start(tmp_path / "one", "--num-shards", shards)])
    first, second = end(start_two(tmp_path / "two", "--num-shards", shards))
    assert second == ""
    score = json.loads(first)["final_return"]
    assert score == json.loads(single)["final_return"]
    assert_identical(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_a_signal_to_one_process_stops_both_and_the_run_resumes(tmp_path: Path) -> None:
    budget = ("--num-shards", "2", "--total-timesteps", "2_000_000")
    both = start_two(tmp_path / "two", *budget)
    checkpoints, deadline = tmp_path / "two" / "checkpoints", time.monotonic() + SECONDS
    while not (tmp_path / "two" / "metrics.jsonl").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    both[1].send_signal(signal.SIGTERM)
    end(both, 128 + signal.SIGTERM)
    done = checkpoint.update_of(checkpoint.find(checkpoints))
    assert 0 < done < 2_000_000 // 128
    resumed = start_two(tmp_path / "two", *budget, "--resume")
    while checkpoint.update_of(checkpoint.find(checkpoints)) == done:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.kill(resumed[0].pid, signal.SIGTERM)
    end(resumed, 128 + signal.SIGTERM)
    updates = [row["update"] for row in RunDirectory(tmp_path / "two").rows()]
    assert updates == list(range(1, len(updates) + 1))
    assert len(updates) > done


def test_a_request_that_one_process_refuses_ends_both(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "run.json").write_text("{}")
    both = start_two(tmp_path / "two", "--num-shards", "2")
    results = [process.communicate(timeout=SECONDS)[0] for process in both]
    assert [process.returncode for process in both] == [2, 1]
    assert json.loads(results[1])["error"]["rule"] == "processes"


@pytest.mark.parametrize(
    "flags",
    [
        ("--coordinator", "127.0.0.1:1"),
        ("--num-processes", "2", "--process-id", "0"),
        ("--coordinator", "127.0.0.1:1", "--num-processes", "2", "--process-id", "2"),
    ],
)
def test_incomplete_flags_are_refused(flags: tuple[str, ...], tmp_path: Path) -> None:
    [out] = end([start(tmp_path / "run", *flags)], code=2)
    assert json.loads(out)["error"]["rule"] == "processes"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        (("--platform", "gpu"), "platform"),
        (("--platform", "tpu"), "platform"),
        (("--platform", "gpu", "--num-seeds", "2"), "flags"),
        (("--process-id", "0", "--num-seeds", "2"), "flags"),
    ],
)
def test_flags_that_cannot_take_effect_are_refused(flags: tuple[str, ...], rule: str, tmp_path: Path) -> None:
    if jax.default_backend() != "cpu":
        pytest.skip("this machine has an accelerator")
    [out] = end([start(tmp_path / "run", *flags)], code=2)
    assert json.loads(out)["error"]["rule"] == rule
    assert not (tmp_path / "run").exists()


def test_one_process_agrees_with_itself() -> None:
    assert [in_any_process(value) for value in (True, False)] == [True, False]
    with pytest.raises(RequestError), failing_together():
        raise RequestError("run", "no", "")
