"""Checkpoints: one file each, arrays only, written in one step and verified by a checksum before anything is loaded.

a JSON line     {"update": …, "metrics": [size, sha256], "snapshot": [names]}
arrays          the leaves of the state, then those of the snapshot, in NumPy's format
32 bytes        SHA-256 of everything before them
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import equinox as eqx
import numpy as np

from rollshape.checksums import Extent, digest_file
from rollshape.envs.host import Snapshot
from rollshape.errors import RequestError
from rollshape.files import WriteOnlyFile, atomic_write, disk_errors

SUFFIX = ".eqx"
DAMAGED_SUFFIX = ".damaged"
LONGEST_HEADER = 1 << 20  # bytes
DIGEST_SIZE = hashlib.sha256().digest_size


class DamagedCheckpoint(RequestError):
    """The file is not what was written: its checksum does not match."""

    def __init__(self, path: Path) -> None:
        others = ", ".join(str(update_of(other)) for other in stored(path.parent) if other != path)
        super().__init__(
            "checkpoint",
            f"{path} is damaged: its checksum does not match.",
            f"Use another checkpoint of the run: it has {others}." if others else "Train the run again.",
        )


class Contents(NamedTuple):
    """What a checkpoint stores: the state, the snapshot of host environments, the metrics up to its update."""

    state: Any
    snapshot: Snapshot | None
    metrics: Extent


class _HashingFile:
    """Hashes what is written to a file."""

    def __init__(self, file: WriteOnlyFile) -> None:
        self._file, self.digest = file, hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        return self._file.write(content)


NO_METRICS = Extent(0, hashlib.sha256().hexdigest())


def save(folder: Path, update: int, state: Any, snapshot: Snapshot | None = None, metrics: Extent = NO_METRICS) -> Path:
    """Write `folder/000000123.eqx`; a crash leaves the file complete or absent."""
    target = _path(folder, update)
    header = {"update": update, "metrics": metrics, "snapshot": None if snapshot is None else list(snapshot)}
    with atomic_write(target) as file:
        hashing = _HashingFile(file)
        hashing.write(json.dumps(header).encode() + b"\n")
        eqx.tree_serialise_leaves(cast(BinaryIO, hashing), state)
        for array in (snapshot or {}).values():
            np.save(cast(BinaryIO, hashing), array, allow_pickle=False)
        file.write(hashing.digest.digest())
    return target


def _path(folder: Path, update: int) -> Path:
    return folder / f"{update:09d}{SUFFIX}"


def stored(folder: Path) -> list[Path]:
    """Return all checkpoints, the oldest first."""
    return sorted((path for path in folder.glob(f"*{SUFFIX}") if path.stem.isdecimal()), key=update_of)


def latest(folder: Path) -> Path | None:
    """Return the checkpoint of the latest update, if there is one."""
    return next(reversed(stored(folder)), None)


def find(folder: Path, update: int | None = None) -> Path:
    """Return the checkpoint of an update, or the latest; a RequestError lists those that exist."""
    known = stored(folder)
    if not known:
        raise RequestError("run", f"{folder.parent} has no checkpoint.", "Continue training with --resume.")
    wanted = known[-1] if update is None else _path(folder, update)
    if wanted not in known:
        raise RequestError(
            "checkpoint",
            f"{folder.parent} has no checkpoint of update {update}.",
            f"It has {', '.join(str(update_of(path)) for path in known)}; --keep-checkpoints keeps more.",
        )
    return wanted


def update_of(checkpoint: Path) -> int:
    return int(checkpoint.stem)


def metrics_before(folder: Path) -> Extent | None:
    """Return the extent of the metrics up to the latest checkpoint; None if there is none, or it is damaged."""
    newest = latest(folder)
    try:
        with open(newest or os.devnull, "rb") as file:
            return Extent(*json.loads(file.readline(LONGEST_HEADER))["metrics"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def load(checkpoint: Path, like: Any) -> Contents:
    """Verify and read a checkpoint; `like` is a state of the same structure, as a new run has it."""
    try:
        with checkpoint.open("rb") as file:
            _verify(checkpoint, file)
            header = json.loads(file.readline())
            state = eqx.tree_deserialise_leaves(file, like)
            snapshot = {name: np.load(file, allow_pickle=False) for name in header["snapshot"] or ()}
            if file.tell() + DIGEST_SIZE != os.fstat(file.fileno()).st_size:
                raise ValueError("it holds more arrays")
    except RequestError:
        raise
    except (OSError, ValueError, RuntimeError, EOFError) as error:
        raise RequestError(
            "checkpoint",
            f"{checkpoint} does not fit this run: {' '.join(str(error).split())}",
            "Use the same spec and version of Rollshape that wrote it.",
        ) from None
    return Contents(state, None if header["snapshot"] is None else snapshot, Extent(*header["metrics"]))


def _verify(checkpoint: Path, file: BinaryIO) -> None:
    """Raise a DamagedCheckpoint unless the file is intact and of its name's update; leave it at its beginning."""
    size = os.fstat(file.fileno()).st_size - DIGEST_SIZE
    if size <= 0 or digest_file(file, size) != file.read(DIGEST_SIZE):
        raise DamagedCheckpoint(checkpoint)
    file.seek(0)
    if json.loads(file.readline())["update"] != update_of(checkpoint):
        raise DamagedCheckpoint(checkpoint)  # an intact file under another one's name
    file.seek(0)


def set_aside(checkpoint: Path) -> None:
    """Rename a damaged checkpoint, so that no command uses it and nothing is deleted."""
    with disk_errors(checkpoint):
        checkpoint.rename(checkpoint.with_name(checkpoint.name + DAMAGED_SUFFIX))


def prune(folder: Path, newest: int, keep: Collection[int] = ()) -> None:
    """Delete all but the newest checkpoints and those of the updates to keep."""
    for old in stored(folder)[:-newest]:
        if update_of(old) not in keep:
            with disk_errors(old):
                old.unlink()


def evenly_spaced(count: int, updates: int, interval: int) -> list[int]:
    """Return the updates i·U/count for i = 0…count: the initial policy's, and `count` evenly spaced up to the last.

    Each is rounded up to the end of a logging interval, because only there the state is available.
    """
    intervals = -(-updates // interval)
    if not 1 <= count <= intervals:
        raise RequestError(
            "number-range",
            f"keep_checkpoints must lie between 1 and the number of logging intervals, {intervals:,}; got {count:,}.",
            f"Use {min(max(count, 1), intervals):,}, or a smaller --log-every.",
        )
    return [min(-(-i * updates // (count * interval)) * interval, updates) for i in range(count + 1)]
