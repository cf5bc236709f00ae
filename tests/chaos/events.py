"""Count what a process does to the files below a folder, so that a fault can be placed at the n-th of these events."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHANGES = ("open", "os.rename", "os.remove", "os.mkdir", "os.truncate", "os.chmod", "fcntl.flock")
_listeners: list[Callable[[], None]] = []
_folders: list[str] = []
_is_hooked = False


class FileEvents:
    """`with FileEvents(folder, on_event):` calls `on_event` before every change below the folder, and every fsync."""

    def __init__(self, folder: Path, on_event: Callable[[], None]) -> None:
        self._folder, self._on_event = str(folder), on_event
        self._fsync = os.fsync

    def __enter__(self) -> FileEvents:
        _add_hook()
        _folders.append(self._folder)
        _listeners.append(self._on_event)
        os.fsync = self._synced
        return self

    def __exit__(self, *_: object) -> None:
        os.fsync = self._fsync
        _folders.clear()
        _listeners.clear()

    def _synced(self, handle: Any) -> None:
        _notify()
        self._fsync(handle)


def _add_hook() -> None:
    """Add the hook once: Python has no way to remove it."""
    global _is_hooked
    if not _is_hooked:
        sys.addaudithook(_on_audit)
        _is_hooked = True


def _on_audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _listeners or event not in CHANGES:
        return
    if event == "fcntl.flock" or any(
        isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(_folders[0])
        for path in arguments[:2]
    ):
        _notify()


def _notify() -> None:
    """Call the listener; what it does to files itself does not count."""
    listeners = _listeners.copy()
    _listeners.clear()
    try:
        for listener in listeners:
            listener()
    finally:
        _listeners.extend(listeners)
