"""Limits of what is read from logs, and reading a file within them. Logs are untrusted: nothing in them is executed."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path

from rollshape.errors import RequestError
from rollshape.formatting import format_bytes

LARGEST_LOG = 256_000_000  # bytes of one file
MOST_POINTS = 4_000_000  # values in one file
MOST_TAGS = 10_000
LONGEST_TAG = 500  # characters
LONGEST_TEXT = 100_000  # characters of a text in a log


class DamagedLog(ValueError):
    """The bytes are not what the format requires; the message says what is wrong."""


def read_bytes(path: Path, limit: int = LARGEST_LOG) -> bytes:
    """Return the content of a regular file of at most `limit` bytes; anything else is a RequestError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO must not block
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise RequestError("log", f"{path} is not a regular file.", "Give the folder of a run.")
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, RequestError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise RequestError("log", f"{path} cannot be read: {reason}.", "Check the path and its mode.") from None
    if len(content) > limit:
        raise RequestError(
            "log",
            f"{path} is larger than {format_bytes(limit)}, the most that is read of one log file.",
            "Import a shorter log, or export the scalars as CSV.",
        )
    return content


def decode(content: bytes, longest: int = LONGEST_TEXT) -> str:
    """Return text of limited length; what is not UTF-8 is replaced, for example in names of tags."""
    return content[: 4 * longest].decode("utf-8", errors="replace")[:longest]


def printable(text: str) -> str:
    """Return text that can be printed and stored: bytes of a path that are not UTF-8 are replaced."""
    return text.encode("utf-8", errors="replace").decode()


def parse_number(text: str) -> float:
    """Return a number as other libraries write it; NaN for an empty field and for anything that is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
