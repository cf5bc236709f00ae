"""Cores and memory that are available to this process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True, slots=True)
class Machine:
    """Available cores and memory."""

    cores: int
    memory_bytes: int


@cache
def machine() -> Machine:
    """Return the resources of this machine; a container's memory limit applies."""
    import psutil

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = int(psutil.virtual_memory().total)
    for limit in _CGROUP_LIMITS:
        try:
            memory = min(memory, int(Path(limit).read_text()))
        except (OSError, ValueError):  # not Linux, no container, or "max"
            continue
    return Machine(cores, memory)
