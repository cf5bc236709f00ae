"""Ctrl-C ends a run after the interval under way, so that its state can be saved; a second one ends it at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """`with Interrupt() as stop: … if stop.asked: …`"""

    def __init__(self) -> None:
        self.asked = False
        self._previous: Any = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # signals are the main thread's
            self._previous = signal.signal(signal.SIGINT, self._ask)
        return self

    def _ask(self, _: int, __: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self._previous)

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
