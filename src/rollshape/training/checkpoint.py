"""Checkpoints: written to a temporary name, synced, renamed; arrays only, nothing that could be executed."""

from __future__ import annotations

import io
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO, cast

import equinox as eqx
import numpy as np

from rollshape.envs.host import Snapshot
from rollshape.errors import RequestError
from rollshape.files import atomic_write, disk_errors

SUFFIX, SNAPSHOT_SUFFIX = ".eqx", ".npz"


def save(folder: Path, update: int, state: Any, snapshot: Snapshot | None = None) -> Path:
    """Write the state to `folder/000000123.eqx`; a crash leaves the file complete or absent.

    A snapshot of host environments goes to a second file, which is written first: a state never lacks it.
    """
    target = _path(folder, update)
    if snapshot is not None:
        with atomic_write(target.with_suffix(SNAPSHOT_SUFFIX)) as file:
            archive = io.BytesIO()  # a zip file seeks
            np.savez(archive, **snapshot)  # type: ignore[arg-type]
            file.write(archive.getvalue())
    with atomic_write(target) as file:
        eqx.tree_serialise_leaves(cast(BinaryIO, file), state)
    return target


def _path(folder: Path, update: int) -> Path:
    return folder / f"{update:09d}{SUFFIX}"


def stored(folder: Path) -> list[Path]:
    """Return all checkpoints, the oldest first."""
    return sorted(folder.glob(f"[0-9]*{SUFFIX}"), key=update_of)


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


def load(checkpoint: Path, like: Any) -> Any:
    """Return the stored state; `like` is a state of the same structure, as a new run has it."""
    try:
        with checkpoint.open("rb") as file:
            return eqx.tree_deserialise_leaves(file, like)
    except (OSError, ValueError, RuntimeError, EOFError) as error:
        raise RequestError(
            "checkpoint", f"{checkpoint} cannot be read for this run: {error}.", "Use another checkpoint of the run."
        ) from None


def load_snapshot(checkpoint: Path) -> Snapshot | None:
    """Return the snapshot of host environments that was saved with the state."""
    path = checkpoint.with_suffix(SNAPSHOT_SUFFIX)
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def prune(folder: Path, newest: int, keep: Collection[int] = ()) -> None:
    """Delete all but the newest checkpoints and those of the updates to keep."""
    for old in stored(folder)[:-newest]:
        if update_of(old) not in keep:
            with disk_errors(old):
                old.unlink()
                old.with_suffix(SNAPSHOT_SUFFIX).unlink(missing_ok=True)


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
