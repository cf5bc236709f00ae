"""Files that are whole or absent, and one clear message where the disk does not take them."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rollshape.errors import RunError
from rollshape.geometry.memory import human_bytes

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, the quota, the limit on a file's size


@contextmanager
def told(path: Path, then: str = "go on with --resume") -> Iterator[None]:
    """An OSError while `path` is written becomes a RunError: what, where, how much is free, what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = "Free some space" if error.errno in FULL else "Make it writable"
        raise RunError(
            "disk",
            f"{path} cannot be written: {reason} ({_free(path)} free there); what was written before is intact.",
            f"{remedy}, then {then}.",
        ) from None


def _free(path: Path) -> str:
    """Free bytes of the disk that holds the path, or will hold it."""
    return human_bytes(shutil.disk_usage(next(there for there in path.absolute().parents if there.exists())).free)


class Sink:
    """A file to write to and no more: into a real one NumPy writes past Python, and does not tell of a full disk."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, content: bytes) -> int:
        return self._file.write(content)


@contextmanager
def replacing(target: Path, then: str = "go on with --resume") -> Iterator[Sink]:
    """A file to write in; on success it takes the target's name in one step, on failure it is gone."""
    temporary = target.with_name(f".{target.name}.writing")
    with told(target, then):
        try:
            with temporary.open("wb") as file:
                yield Sink(file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def append(target: Path, content: bytes) -> None:
    """Add to a file's end, all or nothing: what a full disk took of it is taken back."""
    with told(target), target.open("ab", buffering=0) as file:
        size, left = file.tell(), memoryview(content)
        try:
            while left:
                left = left[file.write(left) :]
        except OSError:
            file.truncate(size)
            raise
