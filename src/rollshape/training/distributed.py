"""One run on several processes or hosts: each computes the same number of shards, and all have the same state.

Every process runs the same commands on the same spec, and parts of the state travel between them only inside the
compiled program. So each process trains, scores and decides alike; the first one alone writes the run directory. What
only one process knows (a signal, an existing checkpoint, an error) is exchanged with the functions of this module.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from rollshape.algorithms.parallel import reserve_devices
from rollshape.errors import RequestError, RollshapeError, RunError


def join_processes(coordinator: str, num_processes: int, process_id: int) -> None:
    """Connect this process to the others; `coordinator` is HOST:PORT of the first one. Returns when all are there."""
    reserve_devices()
    try:
        jax.distributed.initialize(coordinator, num_processes, process_id)
    except (RuntimeError, ValueError) as error:
        text = str(error).strip().split("\n")[0]
        raise RequestError(
            "processes",
            f"Process {process_id} of {num_processes} cannot reach the coordinator at {coordinator}: {text}",
            "Start all processes with the same --coordinator HOST:PORT, a free port of the first process's host.",
        ) from None


def is_first() -> bool:
    """Return whether this process writes the run directory."""
    return bool(jax.process_index() == 0)


def in_any_process(value: bool) -> bool:
    """Return whether the value is true in any process; all processes must call this together."""
    if jax.process_count() == 1:
        return value
    return bool(np.any(multihost_utils.process_allgather(np.asarray(value))))


def from_first(tree: Any) -> Any:
    """Return the first process's tree of NumPy arrays; all processes must call this together."""
    return tree if jax.process_count() == 1 else multihost_utils.broadcast_one_to_all(tree)


@contextmanager
def failing_together() -> Iterator[None]:
    """If the block fails in one process, let it fail in all of them: the others would wait forever."""
    try:
        yield
    except RollshapeError:
        in_any_process(True)
        raise
    if in_any_process(False):
        raise RunError("processes", "Another process of this run has failed; see its message.", "")


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """Yield a temporary run directory for a process that is not the first: it writes the same, for nobody."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "run"
