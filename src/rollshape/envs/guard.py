"""Calls into host environments in this process: each has a time limit, and every failure names environment and step."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING

from rollshape.envs.access import EnvAccess
from rollshape.envs.failures import (
    LONGER,
    EnvironmentAbandoned,
    EnvironmentCrash,
    EnvironmentFailure,
    SubEnvError,
    format_exception,
)
from rollshape.errors import RollshapeError, RunError

if TYPE_CHECKING:
    from rollshape.envs.host import HostEnv


class CallTimeout(BaseException):
    """Raised within a call that exceeded its limit; no Exception, so that environments do not handle it."""


class CallGuard:
    """`with guard: pool.step()`. Entering costs as little as possible: a watcher thread measures the time.

    Without `access` there is no time limit. If the environments are in another process (`is_remote`), their exceptions
    arrive as errors: any other one is of this process.
    """

    def __init__(self, name: str, access: EnvAccess | None = None, *, is_remote: bool = False) -> None:
        self.name, self.access, self._is_remote = name, access, is_remote
        self.beats = 0  # changes with every sign of progress
        self.is_active = False  # a call is running
        self.thread = 0  # in which it runs
        self.expired_at = 0  # value of `beats` in the call that exceeded its limit
        self.is_abandoned = False  # a call was cut short: the environments are in an unknown state
        self._what = "step"
        self._pool: weakref.ref[HostEnv] | None = None

    def attach(self, pool: HostEnv) -> None:
        """Guard the calls of this pool from now on; its step is reported."""
        self.name, self._pool = pool.name, weakref.ref(pool)
        pool.guard = self

    def __enter__(self) -> None:
        self.beats += 1
        self.thread = get_ident()
        self.is_active = True

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        self.is_active = False
        if self.expired_at:
            self._forget_expiry()
        if error is not None and not isinstance(error, RollshapeError):
            raise self._translate(error) from error

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Guard a call other than a step."""
        self._what = what
        try:
            with self:
                yield
        finally:
            self._what = "step"

    def beat(self) -> None:
        """Restart the time of a call that consists of many parts, such as the construction of N environments."""
        self.beats += 1

    def timeout_error(self) -> RunError:
        """Return the error of a call that exceeded its limit."""
        assert self.access is not None
        limit = self.access.limit
        if self.access.is_hurried:
            return EnvironmentAbandoned(self.name, self.step, limit)
        return EnvironmentCrash(self.name, self.step, f"{self._what} did not return within {limit:g} s.", LONGER)

    @property
    def step(self) -> int:
        """Vector steps of the pool since its reset."""
        pool = self._pool() if self._pool is not None else None
        return 0 if pool is None else pool.steps

    def _forget_expiry(self) -> None:
        from rollshape.envs.watcher import cancel_interrupt

        self.expired_at = 0
        cancel_interrupt(self.thread)

    def _translate(self, error: BaseException) -> BaseException:
        """Return what the caller sees of an exception; exit() and KeyboardInterrupt of an environment are failures."""
        from rollshape.envs.watcher import was_signaled

        self.is_abandoned = self.is_abandoned or not isinstance(error, Exception)
        if isinstance(error, CallTimeout):
            return self.timeout_error()
        if self._is_remote or (not isinstance(error, Exception) and was_signaled()):
            return error
        problem = str(error) if isinstance(error, SubEnvError) else format_exception(error)
        return EnvironmentFailure(self.name, self.step, problem)
