"""Cores and memory that are available to this process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rollshape.formatting import format_bytes

# Limit, use and statistics of a container, in versions 2 and 1 of control groups.
_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
    ),
)
_REREAD_SECONDS = 1.0  # a grid of 10,000 plans reads the available memory once
_available: tuple[float, int | None] = (-_REREAD_SECONDS, None)


@dataclass(frozen=True, slots=True)
class Machine:
    """Available cores, and memory; None where it is unknown, as in a browser."""

    cores: int
    memory_bytes: int | None

    def describe(self) -> str:
        """Return the resources as text, such as `2 cores, 25.3 GB`."""
        return f"{self.cores} core{'' if self.cores == 1 else 's'}" + (
            "" if self.memory_bytes is None else f", {format_bytes(self.memory_bytes)}"
        )


_assumed: ContextVar[Machine | None] = ContextVar("assumed machine", default=None)


@contextmanager
def assume_machine(resources: Machine) -> Iterator[None]:
    """Plan for another machine than this one, such as the one that the page is asked about."""
    token = _assumed.set(resources)
    try:
        yield
    finally:
        _assumed.reset(token)


def machine() -> Machine:
    """Return the resources of the machine to plan for: the assumed one, or this one."""
    return _assumed.get() or measure_machine()


@cache
def measure_machine() -> Machine:
    """Return the resources of this machine; a container's memory limit applies."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        import psutil
    except ImportError:
        return Machine(cores, None)
    limits = [limit for paths in _CGROUPS if (limit := _read_number(paths[0])) is not None]
    return Machine(cores, min([int(psutil.virtual_memory().total), *limits]))


def available_memory() -> int | None:
    """Return the memory that no process uses, at most a second old; None where it is unknown."""
    global _available
    if (assumed := _assumed.get()) is not None:
        return assumed.memory_bytes
    now = time.monotonic()
    if now - _available[0] >= _REREAD_SECONDS:
        _available = (now, _read_available())
    return _available[1]


def _read_available() -> int | None:
    try:
        import psutil
    except ImportError:
        return None
    free = [left for paths in _CGROUPS if (left := _left_in_container(*paths)) is not None]
    return min([int(psutil.virtual_memory().available), *free])


def _left_in_container(limit_path: str, use_path: str, statistics_path: str) -> int | None:
    """Return what a container may still allocate: files in memory are released when it is needed."""
    limit, used = _read_number(limit_path), _read_number(use_path)
    if limit is None or used is None:
        return None
    return max(0, limit - used + (_read_number(statistics_path, "inactive_file ") or 0))


def _read_number(path: str, start: str = "") -> int | None:
    """Return the number in the first line of a file that begins with `start`."""
    try:
        lines = Path(path).read_text().splitlines()
        return next((int(line.removeprefix(start)) for line in lines if line.startswith(start)), None)
    except (OSError, ValueError):  # not Linux, no container, or "max"
        return None
