"""Estimates in JSON documents: written as a value with its interval, and read back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rollshape.gradients.intervals import Estimate


def to_plain(value: Any) -> Any:
    """Return plain JSON: tuples as lists, NumPy numbers as Python numbers, and null for a number that is not finite."""
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def interval(estimate: Estimate | None) -> list[float] | None:
    return None if estimate is None else [estimate.low, estimate.high]


def write_estimates(estimates: Mapping[str, Estimate | None]) -> dict[str, Any]:
    """Return values by name, and their intervals under `ci`."""
    values = {name: None if estimate is None else estimate.value for name, estimate in estimates.items()}
    return {**values, "ci": {name: interval(estimate) for name, estimate in estimates.items()}}


def read_estimates(document: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return what `write_estimates` wrote, by name."""
    return {name: read_estimate(document[name], document["ci"][name]) for name in names}


def read_estimate(value: float | None, ends: Sequence[float | None] | None) -> Any:
    """Return an Estimate, or None if there is no interval; a null stands for a number that is not finite."""
    return None if ends is None else Estimate(_number(value), _number(ends[0]), _number(ends[1]))


def read_fields(document: Mapping[str, float | None] | None) -> Any:
    """Return the Estimate that was written as a mapping of its fields, or None."""
    if document is None:
        return None
    return Estimate(_number(document["value"]), _number(document["low"]), _number(document["high"]))


def _number(value: float | None) -> float:
    return math.nan if value is None else value
