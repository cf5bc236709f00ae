"""How a command calls host environments: for how long a call may last, and in which process."""

from __future__ import annotations

from collections.abc import Callable

from rollshape.errors import RunError
from rollshape.geometry.values import POSITIVE, real_number

TIMEOUT = 300.0  # seconds
GRACE = 5.0  # seconds for a call that is still running when a stop is requested


class EnvAccess:
    """The time limit of a call and the choice of process, shared by all pools that a run creates.

    Neither changes a result, so they are no part of a spec. `on_exit` is called with the error if a call cannot be
    interrupted, so that the process has to end.
    """

    def __init__(
        self, timeout: float = TIMEOUT, isolate: bool = False, on_exit: Callable[[RunError], None] | None = None
    ) -> None:
        self.timeout = real_number("env_timeout", timeout, POSITIVE, TIMEOUT)
        self.isolate, self.on_exit = isolate, on_exit
        self.is_hurried = False

    @property
    def limit(self) -> float:
        """Seconds that a call may last from now on."""
        return min(self.timeout, GRACE) if self.is_hurried else self.timeout

    def hurry(self) -> None:
        """Allow calls only a short time from now on, because a stop was requested. Safe in a signal handler."""
        self.is_hurried = True


class Countdown:
    """The time of one call. Only time in which this process runs is counted: it may be suspended, as by Ctrl-Z."""

    def __init__(self, access: EnvAccess) -> None:
        self._access, self._was_hurried = access, access.is_hurried
        self.waited = 0.0

    def add(self, seconds: float) -> float:
        """Count the seconds; return by how many the call exceeds its limit (negative before)."""
        if self._access.is_hurried and not self._was_hurried:
            self._was_hurried, self.waited = True, 0.0  # the short limit starts when the stop is requested
        self.waited += seconds
        return self.waited - self._access.limit
