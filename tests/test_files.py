"""A file is whole or absent, and a disk that does not take it is one clear message."""

import errno
import os
import resource
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from rollshape.errors import RequestError, RunError
from rollshape.files import append, atomic_write, describe_lock_owner, lock_file, output_directory
from rollshape.training import checkpoint


@contextmanager
def limited(size: int) -> Iterator[None]:
    """Files may not grow beyond so many bytes: a full disk that needs no root."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_is_appended_in_part_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append(path, b"x" * 90 + b"\n")
    with limited(100), pytest.raises(RunError, match=r"File too large.*free there"):
        append(path, b"y" * 90 + b"\n")
    assert path.read_bytes() == b"x" * 90 + b"\n"
    append(path, b"z\n")
    assert path.read_bytes() == b"x" * 90 + b"\nz\n"


def test_what_cannot_be_replaced_stays(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with atomic_write(path) as file:
        file.write(b"old")
    with limited(100), pytest.raises(RunError, match=r"run\.json cannot be written"), atomic_write(path) as file:
        file.write(b"y" * 200)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "Free some space"), (errno.EDQUOT, "Free some space"), (errno.EROFS, "Make it writable")],
)
def test_a_write_that_fails_when_it_is_synced(
    number: int, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError) as caught, atomic_write(tmp_path / "x") as file:
        file.write(b"new")
    assert caught.value.rule == "disk"
    assert os.strerror(number) in caught.value.message
    assert caught.value.fix == f"{remedy}, then run the same command with --resume."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", [1, 1000, 4000])
def test_an_array_is_written_whole_or_not_at_all(missing: int, tmp_path: Path) -> None:
    whole = checkpoint.save(tmp_path, 1, np.ones(1000, np.float32)).stat().st_size
    with limited(whole - missing), pytest.raises(RunError):
        checkpoint.save(tmp_path, 2, np.ones(1000, np.float32))
    assert [path.name for path in tmp_path.iterdir()] == ["000000001.eqx"]


def test_a_locked_file_names_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = lock_file(path)
    assert lock is not None
    assert lock_file(path) is None
    assert describe_lock_owner(path) == f"process {os.getpid()} on {socket.gethostname()}"
    lock.release()
    again = lock_file(path)
    assert again is not None
    again.release()


def test_a_lock_is_released_although_a_forked_child_has_its_handle(tmp_path: Path) -> None:
    lock = lock_file(tmp_path / "lock")
    assert lock is not None
    child = subprocess.Popen(["sleep", "60"], pass_fds=[lock._handle])
    try:
        assert lock_file(tmp_path / "lock") is None
        lock.release()
        again = lock_file(tmp_path / "lock")
        assert again is not None
        again.release()
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("content", [b"", b"1 2 3", b"\xff\xfe"])
def test_an_owner_that_cannot_be_read(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_bytes(content)
    assert describe_lock_owner(path) == "another process"


def test_a_lock_does_not_follow_a_link(tmp_path: Path) -> None:
    victim, planted = tmp_path / "victim", tmp_path / "lock"
    victim.write_text("precious")
    planted.symlink_to(victim)
    with pytest.raises(RunError, match="cannot be written"):
        lock_file(planted)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("path", ["", "/", "//", "/tmp/..", "a\0b"])
def test_directories_that_nobody_means(path: str) -> None:
    with pytest.raises(RequestError, match="cannot be the directory of a result"):
        output_directory(path)


def test_directories_for_results(tmp_path: Path) -> None:
    for path in (".", "runs/x", tmp_path, str(tmp_path / "new")):
        assert output_directory(path) == Path(path)
