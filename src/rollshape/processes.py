"""Processes: what child processes import, and how signals interrupt a command.

Child processes do not import modules from the current directory, where anybody may have put an `equinox.py`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SAFE_PATH = {"PYTHONSAFEPATH": "1"}  # the flag -P as a variable: Python before 3.11 ignores it instead of failing


@contextmanager
def safe_child_path() -> Iterator[None]:
    """Start child processes with SAFE_PATH where a library starts them, such as `multiprocessing`."""
    before = {name: os.environ.get(name) for name in SAFE_PATH}
    os.environ.update(SAFE_PATH)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


REPEAT_SECONDS = 0.05
SIGNALS = (signal.SIGINT, signal.SIGTERM)  # a terminal's, and that of Slurm, Kubernetes and systemd


class SignalReceived(KeyboardInterrupt):
    """Raised by a signal. Unlike a plain KeyboardInterrupt, Python never turns it into an exit code of its own."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


class RaisingSignals:
    """While it is entered, Ctrl-C and SIGTERM raise SignalReceived, unless they are ignored, as under `nohup`.

    NumPy and JAX print a traceback if their import is interrupted; during an import, the process ends at once with the
    exit code that `on_import` returns. Python ignores exceptions in some places, such as JAX's callback of the garbage
    collector; a signal that arrives there is sent again.
    """

    def __init__(self, on_import: Callable[[signal.Signals], int]) -> None:
        self.received: signal.Signals | None = None
        self._on_import = on_import
        self._previous: dict[signal.Signals, Any] = {}
        self._previous_hook = sys.unraisablehook

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():  # only the main thread handles signals
            numbers = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._previous_hook, sys.unraisablehook = sys.unraisablehook, self._handle_unraisable
            self._previous = {number: signal.signal(number, self._raise) for number in numbers}

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not installed by Python
        sys.unraisablehook = self._previous_hook

    def _raise(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        if _is_importing(frame):
            os._exit(self._on_import(self.received))
        raise SignalReceived(self.received)

    def _handle_unraisable(self, unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, SignalReceived):
            threading.Timer(REPEAT_SECONDS, os.kill, (os.getpid(), unraisable.exc_value.number)).start()
        else:
            self._previous_hook(unraisable)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
