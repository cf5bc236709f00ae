"""A thread that ends calls into environments which take too long.

Python code in the main thread is interrupted by a signal whose handler raises an exception, also while it sleeps or
waits for a file. In another thread the exception is raised at its next bytecode. C code that does not return cannot be
interrupted: after a further grace the process ends with the error. (C code that keeps the interpreter's lock stops this
thread, too; then only a process of its own can be ended, see `isolated`.)
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from weakref import WeakKeyDictionary

from rollshape.envs import access
from rollshape.envs.access import Countdown
from rollshape.envs.guard import CallGuard, CallTimeout
from rollshape.errors import RollshapeError

TICK = 0.1  # seconds
RECENT = 1.0  # seconds for which a signal explains a KeyboardInterrupt
WAKE = signal.SIGURG  # ignored by default, and hardly ever used
STOPS = (signal.SIGINT, signal.SIGTERM)


def print_error(error: RollshapeError) -> None:
    """Print the message of an error that ends the process."""
    if sys.stderr.isatty():
        print("\033[?25h", file=sys.stderr)  # a progress bar has hidden the cursor
    print(f"error [{error.rule}]: {error.message}\n  fix: {error.fix}", file=sys.stderr, flush=True)


report_error: Callable[[RollshapeError], None] = print_error  # the command line replaces it for --json
_lock = threading.Lock()
_watcher: Watcher | None = None


def watch(guard: CallGuard) -> None:
    """Apply the guard's time limit from now on."""
    global _watcher
    with _lock:
        if _watcher is None:
            _watcher = Watcher()
            _watcher.start()
        _watcher.add(guard)
    if threading.current_thread() is threading.main_thread():  # only there signal handlers can be set
        _watcher.handle_signals()


def was_signaled() -> bool:
    """Return whether this process has just received a stop signal, which explains an exception within a call.

    Where signals are not reported to this module, an exception in the main thread counts as the user's if Ctrl-C
    raises one there.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    if _watcher is not None and _watcher.is_notified:
        return _watcher.was_signaled()
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def cancel_interrupt(thread: int) -> None:
    """Withdraw an exception that was sent to a thread and is not raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), None)


def _interrupt(_: int, __: FrameType | None) -> None:
    if _watcher is not None:
        _watcher.interrupt_overdue()


def _forget_watcher() -> None:
    """In a forked process: its thread does not run there."""
    global _lock, _watcher
    if _watcher is not None and _watcher.is_notified:
        signal.set_wakeup_fd(-1)
    _lock, _watcher = threading.Lock(), None


os.register_at_fork(after_in_child=_forget_watcher)


class _Call:
    """What the watcher knows of a guard's call."""

    def __init__(self, guard: CallGuard) -> None:
        assert guard.access is not None
        self.beats, self.countdown = guard.beats, Countdown(guard.access)
        self.is_stopping = False  # a stop signal arrived
        self.is_interrupted = self.is_reported = False


class Watcher(threading.Thread):
    """Measures the running call of every guard."""

    def __init__(self) -> None:
        super().__init__(name="rollshape-env-watcher", daemon=True)
        self.is_notified = False  # of signals
        self._calls: WeakKeyDictionary[CallGuard, _Call] = WeakKeyDictionary()
        self._overdue: CallGuard | None = None  # in the main thread
        self._read_end, self._write_end = os.pipe()
        for end in (self._read_end, self._write_end):
            os.set_blocking(end, False)
        self._signal_lock = threading.Lock()
        self._last_stop = -RECENT

    def add(self, guard: CallGuard) -> None:
        self._calls[guard] = _Call(guard)

    def handle_signals(self) -> None:
        """Install the handler that interrupts a call, and have the arrival of signals written to a pipe.

        Python runs a handler when C code returns; the pipe also reports signals while it does not.
        """
        if signal.getsignal(WAKE) == signal.SIG_DFL:
            signal.signal(WAKE, _interrupt)
        earlier = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        self.is_notified = earlier in (-1, self._write_end)
        if not self.is_notified:  # it is another module's, such as asyncio's
            signal.set_wakeup_fd(earlier)

    def was_signaled(self) -> bool:
        """Return whether a stop signal arrived in the last moments."""
        self._read_signals()
        return time.monotonic() - self._last_stop < RECENT

    def run(self) -> None:
        before = time.monotonic()
        while True:
            is_readable = bool(select.select([self._read_end], [], [], TICK)[0])
            is_stop = is_readable and self._read_signals()
            now = time.monotonic()
            elapsed, before = min(now - before, 2 * TICK), now  # without the time in which the process was suspended
            with _lock:
                calls = list(self._calls.items())
            for guard, call in calls:
                self._check(guard, call, elapsed, is_stop)
            del calls  # a guard that is used no more can go

    def _read_signals(self) -> bool:
        """Return whether a stop signal was reported since the last call."""
        with self._signal_lock:
            try:
                numbers = os.read(self._read_end, 4096)
            except BlockingIOError:
                return False
            is_stop = any(number in numbers for number in STOPS)
            if is_stop:
                self._last_stop = time.monotonic()
            return is_stop

    def _check(self, guard: CallGuard, call: _Call, elapsed: float, is_stop: bool) -> None:
        if not guard.is_active or guard.beats != call.beats:
            with _lock:
                self._calls[guard] = call = _Call(guard)
            call.is_stopping = is_stop
            return
        if call.is_stopping and guard.access is not None:
            guard.access.hurry()  # the main thread does not get to handle the signal
        call.is_stopping = call.is_stopping or is_stop
        excess = call.countdown.add(elapsed)
        if excess >= 0:
            self._expire(guard, call, excess)

    def _expire(self, guard: CallGuard, call: _Call, excess: float) -> None:
        """Interrupt a call; report it if that has no effect, and end the process if it is the main thread."""
        guard.expired_at = call.beats
        is_main = guard.thread == threading.main_thread().ident
        if excess >= access.GRACE and not call.is_reported:
            call.is_reported = True
            self._report(guard, is_main)
        if is_main:
            self._overdue = guard
            signal.pthread_kill(guard.thread, WAKE)
        elif not call.is_interrupted:
            call.is_interrupted = True
            exception = ctypes.py_object(CallTimeout)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(guard.thread), exception)

    def interrupt_overdue(self) -> None:
        """Raise an exception in the main thread, unless the call has ended in the meantime."""
        guard = self._overdue
        if guard is not None and guard.is_active and guard.beats == guard.expired_at:
            raise CallTimeout

    def _report(self, guard: CallGuard, is_main: bool) -> None:
        error = guard.timeout_error()
        try:
            if guard.access is not None and guard.access.on_exit is not None:
                guard.access.on_exit(error)
            report_error(error)
        finally:
            if is_main:
                os._exit(1)
