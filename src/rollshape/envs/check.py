"""`rollshape.check_env`: does an environment do what training expects? One check per property, with its evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

import numpy as np

from rollshape.envs.access import TIMEOUT, EnvAccess
from rollshape.envs.objects import env_id
from rollshape.envs.registry import kind
from rollshape.envs.spaces import Action, Observation
from rollshape.geometry.calls import check_arguments
from rollshape.geometry.values import POSITIVE, SEED, Range, plain_value

Status = Literal["pass", "warn", "fail"]
NUM_ENVS = 4  # that are stepped side by side
MOST_STEPS = 1_000_000
DEFAULT_STEPS = 2_000  # at most, by default
SAME_LENGTH = 3  # episodes of one length, from which on it is not a coincidence


@dataclass(frozen=True)
class EnvCheck:
    """One property of an environment: whether it holds, and what was observed."""

    name: str
    status: Status
    message: str


@dataclass(frozen=True)
class EnvReport:
    """What `check_env` found out. `passed` is False if a check failed; warnings do not count."""

    env: str
    kind: Literal["functional", "host"]
    observation: str
    action: str
    max_steps: int | None
    checks: list[EnvCheck] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return all(check.status != "fail" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed}

    def __str__(self) -> str:
        width = max((len(check.name) for check in self.checks), default=0)
        return "\n".join(
            [
                f"{self.env} ({self.kind})",
                f"      observation {self.observation}, action {self.action}, time limit {self.max_steps or 'none'}",
                *(f"{check.status:<5} {check.name:<{width}}  {check.message}" for check in self.checks),
            ]
        )


@check_arguments
def check_env(
    env: Any,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    steps: Annotated[int | None, Range(1, MOST_STEPS)] = None,
    seed: Annotated[int, SEED] = 0,
    env_timeout: Annotated[float, POSITIVE] = TIMEOUT,
    isolate_env: bool = False,
) -> EnvReport:
    """Check an environment with random actions before training on it.

    Args:
        env: an id, or a class, function or instance as `train` takes it.
        env_kwargs: options of the environment.
        steps: steps per environment, of which there are 4; by default two episodes, at most 2,000.
        seed: seed of resets and actions.
        env_timeout: seconds that a call into a host environment may last.
        isolate_env: run host environments in a process of their own.
    """
    identity, access = env_id(env), EnvAccess(env_timeout, isolate_env)
    options = {name: plain_value(name, value) for name, value in (env_kwargs or {}).items()}
    if kind(identity, access) == "functional":
        from rollshape.envs.check_functional import check_functional

        return check_functional(identity, options, steps, seed)
    from rollshape.envs.check_host import check_host

    return check_host(identity, options, steps, seed, access)


def new_report(
    identity: str, kind: Literal["functional", "host"], observation: Observation, action: Action, max_steps: int | None
) -> EnvReport:
    """Return a report without checks."""
    shape = "×".join(map(str, observation.shape))
    return EnvReport(identity, kind, f"{shape} {observation.dtype}", str(action), max_steps)


def default_steps(horizon: int) -> int:
    """Return the steps of two episodes, within a limit."""
    return min(2 * horizon, DEFAULT_STEPS)


def check_ends(lengths: Iterable[int], truncated: Iterable[bool], max_steps: int | None, steps: int) -> list[EnvCheck]:
    """Check the time limit and how it is reported, from the episodes that ended in `steps` steps."""
    lengths, is_truncated = list(lengths), np.array(list(truncated), bool)
    ended = f"{len(lengths)} episodes ended: {(~is_truncated).sum()} terminated, {is_truncated.sum()} truncated"
    if not lengths:
        message = f"no episode ended within {steps:,} steps, so how ends are reported is not checked; use more steps"
        return [_limit_check(max_steps), EnvCheck("episode ends", "warn", message)]
    if max_steps is not None and max(lengths) > max_steps:
        too_long = f"an episode had {max(lengths):,} steps, more than the time limit of {max_steps:,}"
        return [EnvCheck("time limit", "fail", too_long), EnvCheck("episode ends", "pass", ended)]
    length, count = Counter(lengths).most_common(1)[0]
    if count == len(lengths) >= SAME_LENGTH and not is_truncated.any():
        message = (
            f"all {count} episodes terminated after exactly {length:,} steps: a time limit must be reported as "
            "truncation, or values are not bootstrapped there"
        )
        return [_limit_check(max_steps), EnvCheck("episode ends", "warn", message)]
    return [_limit_check(max_steps), EnvCheck("episode ends", "pass", ended)]


def _limit_check(max_steps: int | None) -> EnvCheck:
    if max_steps is None:
        message = "none is known; 1,000 steps are assumed where a length is needed, and episodes may never end"
        return EnvCheck("time limit", "warn", message)
    return EnvCheck("time limit", "pass", f"{max_steps:,} steps")
