"""A file is whole or absent, and a disk that does not take it is one clear message."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from rollshape.errors import RunError
from rollshape.files import append, atomic_write
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
