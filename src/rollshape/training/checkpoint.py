"""Checkpoints: written to a temporary name, synced, renamed; arrays only, nothing that could be executed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import equinox as eqx

from rollshape.errors import RequestError

SUFFIX = ".eqx"


def save(folder: Path, update: int, state: Any) -> Path:
    """The state as `folder/000123.eqx`; a crash leaves the file whole or absent."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{update:09d}{SUFFIX}"
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".writing-")
    try:
        with os.fdopen(handle, "wb") as file:
            eqx.tree_serialise_leaves(file, state)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target


def latest(folder: Path) -> Path | None:
    """The checkpoint of the latest update, if there is one."""
    return max(folder.glob(f"[0-9]*{SUFFIX}"), default=None, key=update_of)


def update_of(checkpoint: Path) -> int:
    return int(checkpoint.stem)


def load(checkpoint: Path, like: Any) -> Any:
    """The state; `like` is one of the same structure, as a fresh run has it."""
    try:
        with checkpoint.open("rb") as file:
            return eqx.tree_deserialise_leaves(file, like)
    except (OSError, ValueError, RuntimeError, EOFError) as error:
        raise RequestError(
            "checkpoint", f"{checkpoint} cannot be read for this run: {error}.", "Start again without --resume."
        ) from None


def prune(folder: Path, keep: int) -> None:
    """Only the newest checkpoints stay."""
    for old in sorted(folder.glob(f"[0-9]*{SUFFIX}"), key=update_of)[:-keep]:
        old.unlink()
