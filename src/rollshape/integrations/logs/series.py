"""What a log file holds, whatever its format: scalars by tag, texts, and a config if there is one."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rollshape.errors import RequestError
from rollshape.integrations.logs.reading import LONGEST_TAG, MOST_POINTS, MOST_TAGS


class Series:
    """The values of one tag in the order in which they were written, each with its step and its time in seconds."""

    def __init__(self) -> None:
        self.steps, self.times, self.values = array("d"), array("d"), array("d")

    def append(self, step: float, time: float, value: float) -> None:
        self.steps.append(step)
        self.times.append(time)
        self.values.append(value)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[tuple[float, float, float]]:
        return zip(self.steps, self.times, self.values, strict=True)


@dataclass
class LogFile:
    """The content of one file. `start` and `end` are its first and last time, None if it has no times.

    `axis` is what the steps are: the `step` of an event, or the column of a table.
    """

    path: Path
    scalars: dict[str, Series] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    start: float | None = None
    end: float | None = None
    axis: str = "step"
    points: int = 0

    def add(self, tag: str, step: float, time: float, value: float) -> None:
        """Append a value; a RequestError if the file holds more than is read."""
        series = self.scalars.get(tag)
        if series is None:
            if len(self.scalars) >= MOST_TAGS or len(tag) > LONGEST_TAG:
                raise RequestError(
                    "log",
                    f"{self.path} has more than {MOST_TAGS:,} tags, or one of more than {LONGEST_TAG} characters.",
                    "Give the log of a single training run.",
                )
            series = self.scalars[tag] = Series()
        self.points += 1
        if self.points > MOST_POINTS:
            raise RequestError(
                "log", f"{self.path} has more than {MOST_POINTS:,} values.", "Import a shorter log, or a CSV export."
            )
        series.append(step, time, value)

    def see_time(self, time: float) -> None:
        """Extend the interval of time that the file covers."""
        self.start = time if self.start is None else min(self.start, time)
        self.end = time if self.end is None else max(self.end, time)
