"""Text of probes: shapes, estimates with their intervals, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rollshape.formatting import format_number
from rollshape.gradients.intervals import Estimate

CI = "95 % interval"


class Shaped(Protocol):
    @property
    def num_envs(self) -> int: ...
    @property
    def num_steps(self) -> int: ...


@dataclass(frozen=True)
class TextTable:
    """Text cells; the first column names the row. `note` is printed below."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def format_shape(shape: Shaped) -> str:
    return f"{shape.num_envs:,}×{shape.num_steps:,}"


def format_interval(estimate: Estimate) -> str:
    return f"{format_number(estimate.low)} … {format_number(estimate.high)}"


def format_estimate(estimate: Estimate) -> str:
    return f"{format_number(estimate.value)} ({format_interval(estimate)})"


def format_cells(estimate: Estimate | None) -> tuple[str, str]:
    """Return value and interval as two cells of a table."""
    return ("–", "–") if estimate is None else (format_number(estimate.value), format_interval(estimate))
