"""Ctrl-C and SIGTERM stop a run after the current interval, so that its state is saved; a second Ctrl-C or SIGTERM
stops it immediately."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from rollshape.processes import SIGNALS


class Interrupt:
    """`with Interrupt() as stop: … if stop.is_requested: …`; `on_request` is called by the signal handler."""

    def __init__(self, on_request: Callable[[], None] | None = None) -> None:
        self.signal: int | None = None
        self._on_request = on_request
        self._previous: dict[int, Any] = {}

    @property
    def is_requested(self) -> bool:
        return self.signal is not None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # only the main thread handles signals
            self._previous = {number: signal.signal(number, self._request) for number in SIGNALS}
        return self

    def _request(self, number: int, _: FrameType | None) -> None:
        self.signal = self.signal or number
        self._restore(number)  # only this one: systemd terminates the workers of a study, which interrupts them as well
        if self._on_request is not None:
            self._on_request()

    def _restore(self, *numbers: int) -> None:
        for number in numbers:
            handler = self._previous[number]
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not installed by Python

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._restore(*self._previous)
