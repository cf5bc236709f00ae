"""Standard streams that are closed, full, or whose reader has gone: a command ends with a code, not a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress

STDIN, STDOUT, STDERR = 0, 1, 2
_output = STDOUT  # file descriptor of what the command prints
_redirected: int | None = None  # copy of stdout while it is redirected to stderr


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


def claim_stdout() -> None:
    """Keep stdout for what this command prints in Python: the output of C code and child processes goes to stderr.

    For the rest of the process: threads of a library, such as Gloo's, print at any time.
    """
    global _output
    _output = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    old = sys.stdout
    buffering = 1 if old.line_buffering else -1
    sys.stdout = open(_output, "w", buffering, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115


@contextmanager
def redirected_stdout() -> Iterator[int]:
    """Send what this process and its children print to stderr; yield a descriptor of stdout, for the command itself."""
    global _redirected
    sys.stdout.flush()
    with redirect_stdout(sys.stderr):
        if _output != STDOUT:  # claimed
            yield _output
            return
        copy = os.dup(STDOUT)
        _redirected = copy
        try:
            os.dup2(STDERR, STDOUT)
            yield copy
        finally:
            restore_stdout()
            _redirected = None
            os.close(copy)


def restore_stdout() -> None:
    """End a redirection of stdout: a signal during an import ends the process within it."""
    if _redirected is not None:
        os.dup2(_redirected, STDOUT)


def discard_stdout() -> None:
    """Send what is still in the buffer of stdout to the null device."""
    discard(_output)


def print_error(text: str) -> None:
    """Print to stderr, if it can be written to."""
    with suppress(OSError):
        print(text, file=sys.stderr)
