"""What a library writes to its log: which tag means what in our vocabulary, and where on the axis it belongs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from rollshape.errors import RequestError
from rollshape.geometry.plan import Plan
from rollshape.integrations.logs.series import LogFile

# When a value was measured, which says to which update it belongs:
#   rollout     while the rollout was collected, or at its end
#   update      in the update on this rollout
#   previous    in the update before: the log is written between rollout and update
#   episode     at the end of one episode; the row holds the mean of an interval
#   evaluation  on fresh episodes
When = Literal["rollout", "update", "previous", "episode", "evaluation"]
ENV_STEPS = ("step", "global_step", "time/total_timesteps")  # axes that count what the library counts as its step


@dataclass(frozen=True)
class Facts:
    """What a conversion may depend on: the plan, the run's config, and which tags the log has."""

    plan: Plan
    config: Mapping[str, Any]
    tags: Collection[str]

    def setting(self, name: str) -> Any:
        """Return a value of the config by the last part of its key, wherever it is nested; None if it is not there."""
        return find_setting(self.config, name)


def find_setting(values: Mapping[str, Any], name: str, depth: int = 0) -> Any:
    """Return a value of a nested config by the last part of its key."""
    if name in values:
        return values[name]
    for key, value in values.items():
        if str(key).rpartition(".")[2] == name:
            return value
        if isinstance(value, Mapping) and depth < 8:
            inner = find_setting(value, name, depth + 1)
            if inner is not None:
                return inner
    return None


Factor = Callable[[Facts], "float | None"]


@dataclass(frozen=True)
class Tag:
    """A tag of a log: what the library writes, and the column of ours that it is, times a factor.

    `column` is None where the value has another meaning than any column of ours. A factor of None, computed from the
    run's config, says the same for this run; `condition` says in words when that is.
    """

    names: tuple[str, ...]  # the first one is that of the version in the table; older ones follow
    column: str | None
    meaning: str
    when: When = "update"
    factor: float | Factor = 1.0
    condition: str = ""
    last_epoch: bool = False  # the column has a value per epoch, and this is the last one

    def scale(self, facts: Facts) -> float | None:
        return self.factor(facts) if callable(self.factor) else self.factor


def tag(names: str, column: str | None, meaning: str, **more: Any) -> Tag:
    """Return a tag; several names of one value are separated by `|`."""
    return Tag(tuple(names.split("|")), column, meaning, **more)


@dataclass(frozen=True)
class LibraryLog(ABC):
    """The log of one library: its tags, how it is recognized, and its axis."""

    name: ClassVar[str]
    version: ClassVar[str]  # of the library whose source the table was taken from
    axis: ClassVar[str]  # in words, for the documentation
    dialects: ClassVar[tuple[str, ...]]
    marks: ClassVar[tuple[str, ...]]  # tags that only this library writes
    tags: ClassVar[tuple[Tag, ...]]
    foreign: ClassVar[tuple[str, ...]] = ()  # tags of this library's algorithms that have no rollouts, or are not known
    axes: ClassVar[tuple[str, ...]] = ENV_STEPS
    window: ClassVar[str] = ""  # over which episodes returns are averaged
    by_name: dict[str, Tag] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {name: entry for entry in self.tags for name in entry.names})

    def lookup(self, name: str) -> Tag | None:
        """Return the entry of a tag, None if the table does not have it."""
        return self.by_name.get(name)

    def is_recognized(self, tags: Collection[str]) -> bool:
        return any(mark in tags for mark in self.marks)

    def axis_of(self, name: str) -> str:  # noqa: ARG002
        """Return a name for the axis of a tag; tags of one axis are cut at the same step after a restart."""
        return ""

    @abstractmethod
    def locate(self, name: str, entry: Tag, step: float, facts: Facts) -> int:
        """Return the update to which a value at a step belongs; 0 or less if it was before the first one."""

    def check(self, scalars: LogFile, facts: Facts) -> None:  # noqa: B027
        """Raise a RequestError if the log contradicts the sizes of the plan; not every log shows them."""

    def read_config(self, log: LogFile) -> dict[str, Any]:
        """Return the config that the log itself contains, if it does."""
        return dict(log.config)

    def final_scores(self, log: LogFile) -> list[float]:  # noqa: ARG002
        """Return the returns of episodes played after training, if the log has them."""
        return []


def check_multiples(log: LogFile, name: str, rollout_size: int, what: str) -> None:
    """Raise a RequestError if the values of a tag are not written at multiples of the rollout size."""
    steps = log.scalars[name].steps if name in log.scalars else ()
    wrong = next((int(step) for step in steps if step % rollout_size), None)
    if wrong is not None:
        raise RequestError(
            "log-sizes",
            f"The log has {name} at {wrong:,} environment steps, which is not a multiple of the rollout of "
            f"{rollout_size:,} samples ({what}): the config is not that of this log.",
            "Give the sizes of this run: --num-envs, --num-steps, or its --config.",
        )


def ceil_steps(step: float, rollout_size: int) -> int:
    """Return how many rollouts have begun after so many steps, counting one that has just ended."""
    return -int(-step // rollout_size)
