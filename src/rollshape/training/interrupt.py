"""Ctrl-C stops a run after the current interval, so that its state is saved; a second Ctrl-C stops it immediately."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """`with Interrupt() as stop: … if stop.is_requested: …`"""

    def __init__(self) -> None:
        self.is_requested = False
        self._previous: Any = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # only the main thread handles signals
            self._previous = signal.signal(signal.SIGINT, self._request)
        return self

    def _request(self, _: int, __: FrameType | None) -> None:
        self.is_requested = True
        signal.signal(signal.SIGINT, self._previous)

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
