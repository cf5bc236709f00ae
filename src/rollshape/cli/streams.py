"""Standard streams that are closed, full, or whose reader has gone: a command ends with a code, not a traceback."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress

STDIN, STDOUT, STDERR = 0, 1, 2
_redirected: list[int] = []  # copies of stdout, for the command itself


def open_missing_streams() -> None:
    """Connect closed streams to the null device; the first files that a command opens would take their numbers."""
    for number in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(number)
        except OSError:
            discard(number)
    sys.stdout = sys.stdout or open(STDOUT, "w", closefd=False)  # noqa: SIM115 (open until the process ends)
    sys.stderr = sys.stderr or open(STDERR, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # print a question mark if the encoding has no √


def discard(number: int) -> None:
    """Send what is still written to a stream to the null device."""
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)


@contextmanager
def redirected_stdout() -> Iterator[int]:
    """Send what this process and its children print to stderr; yield a copy of stdout, for the command itself."""
    sys.stdout.flush()
    copy = os.dup(STDOUT)
    _redirected.append(copy)
    try:
        os.dup2(STDERR, STDOUT)
        with redirect_stdout(sys.stderr):
            yield copy
    finally:
        ctypes.CDLL(None).fflush(None)  # what C code has printed so far
        restore_stdout()


def restore_stdout() -> None:
    """End a redirection of stdout early: the process is about to exit with its last message."""
    if _redirected:
        copy = _redirected.pop()
        os.dup2(copy, STDOUT)
        os.close(copy)


def end_stdout() -> None:
    """Send everything that is printed from now on to stderr: the command has printed its document."""
    os.dup2(STDERR, STDOUT)


def print_error(text: str) -> None:
    """Print to stderr, if it can be written to."""
    with suppress(OSError):
        print(text, file=sys.stderr)
