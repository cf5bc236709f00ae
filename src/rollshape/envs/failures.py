"""Failures of environments: whatever an environment does becomes one message with its name and its step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rollshape.errors import RequestError, RunError

LONGER = "Fix the environment, or use a longer --env-timeout; rows and checkpoints are kept."


class EnvironmentFailure(RunError):
    """The environment raised an exception or returned invalid values; `step` counts vector steps since the reset."""

    def __init__(self, name: str, step: int, problem: str, fix: str = "Fix the environment.") -> None:
        super().__init__("environment", f"{name} failed at step {step}: {problem}", fix)
        self.name, self.step, self.problem = name, step, problem


class EnvironmentCrash(EnvironmentFailure):
    """The environment did not return from a call, or ended its process."""


class EnvironmentAbandoned(RunError):
    """A stop was requested, and the environment did not return from its call in time: the run was interrupted."""

    def __init__(self, name: str, step: int, seconds: float) -> None:
        super().__init__(
            "environment",
            f"Interrupted: {name} did not return from step {step} within {seconds:g} s.",
            "Rows and checkpoints are kept: continue with --resume.",
        )


class SubEnvError(RuntimeError):
    """An exception in one of the N environments, as text (`environment 3: …`), so that it can cross processes."""


def format_exception(error: BaseException) -> str:
    """Return an exception as one line of text."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")


@contextlib.contextmanager
def creation_errors(env_id: str) -> Iterator[None]:
    """Turn any exception while an environment is created into a RequestError; exit() must not end our process."""
    try:
        yield
    except (RequestError, EnvironmentCrash, EnvironmentAbandoned):
        raise
    except EnvironmentFailure as error:
        raise RequestError("environment", error.message, error.fix) from None
    except (Exception, SystemExit) as error:
        raise RequestError(
            "environment", f"{env_id} failed: {format_exception(error)}", "Fix the environment."
        ) from None
