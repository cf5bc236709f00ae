"""Memory that was freed, back to the system."""

from __future__ import annotations

import ctypes


def release() -> None:
    """The C library keeps what a compiler has freed: hundreds of megabytes. Where it can, it is asked to give it up."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return
    trim(0)
