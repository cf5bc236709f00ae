"""The journal of a study: events are only appended, and a damaged or missing line is reported, never skipped.

Every line is a JSON object with its own checksum and that of the line before it (`after`), so that a line that was
changed, removed or moved is recognized. A crash can leave one incomplete line, at the end; the next append removes it.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rollshape.checksums import is_intact, seal
from rollshape.errors import RequestError
from rollshape.files import disk_errors
from rollshape.typed import parse_json

RESUME_STUDY = "run the same command again to resume the study"
RESTORE = "Restore the file from a copy, or run the study in another --out: the same study gives the same results."
TAIL = 1 << 16  # bytes that are read at a time to find the last line

JournalEvent = dict[str, Any]


class Journal:
    """The file; any number of processes and threads may use it at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset, self._line, self._checksum = 0, 0, ""  # up to which `new_events` has read

    def exists(self) -> bool:
        return os.path.exists(self.path)

    def append(self, event: Mapping[str, Any]) -> None:
        """Append an event; it is complete and on disk when this returns."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with disk_errors(self.path, RESUME_STUDY):
            handle = os.open(self.path, flags, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                self._append(handle, event)
            finally:
                os.close(handle)

    def events(self) -> Iterator[JournalEvent]:
        """Yield all events, in order."""
        yield from Journal(self.path).new_events()

    def new_events(self) -> list[JournalEvent]:
        """Return the events that were appended since the last call."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                content = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise RequestError("study", f"{self.path} cannot be read: {error.strerror}.", "Check its mode.") from None
        *lines, _ = content.split(b"\n")  # another process may still be writing the last one
        events = []
        for line in lines:
            event = self._parse(line, self._line + 1, self._checksum)
            events.append(event)
            self._line, self._checksum = self._line + 1, event["checksum"]
            self._offset += len(line) + 1
        return events

    def _append(self, handle: int, event: Mapping[str, Any]) -> None:
        """Write a line under the lock; after a disk error the file is as it was."""
        size, last = _last_line(handle)
        os.ftruncate(handle, size)  # an incomplete line of a process that was killed
        after = self._parse(last)["checksum"] if last else ""
        line = json.dumps(seal({**event, "time": round(time.time(), 3), "after": after}), allow_nan=False) + "\n"
        left = memoryview(line.encode())
        try:
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, size)
            raise

    def _parse(self, line: bytes, number: int | None = None, after: str | None = None) -> JournalEvent:
        """Return the event of a line; `after` is the checksum of the line before it, if that was read."""
        try:
            event = parse_json(line)
        except ValueError:
            event = None
        if not isinstance(event, dict) or not isinstance(event.get("event"), str) or not is_intact(event):
            problem = "was changed after it was written"
        elif after is not None and event.get("after") != after:
            problem = "does not continue the line before it: lines are missing or were moved"
        else:
            return event
        where = "its last line" if number is None else f"line {number:,}"
        raise RequestError("study", f"{self.path} is damaged: {where} {problem}.", RESTORE)


def _last_line(handle: int) -> tuple[int, bytes]:
    """Return (size of the file up to its last complete line, that line)."""
    size, tail = os.fstat(handle).st_size, b""
    position = size
    while position and tail.count(b"\n") < 2:
        start = max(0, position - TAIL)
        tail = os.pread(handle, position - start, start) + tail
        position = start
    complete = tail.rfind(b"\n") + 1
    return size - (len(tail) - complete), tail[:complete].rstrip(b"\n").rpartition(b"\n")[2]
