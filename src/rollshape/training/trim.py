"""Return freed memory to the operating system."""

from __future__ import annotations

import ctypes


def trim_memory() -> None:
    """Return the memory that the compiler has freed: the C library would keep hundreds of megabytes of it."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return
    trim(0)
