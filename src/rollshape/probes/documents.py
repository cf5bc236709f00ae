"""Estimates in JSON documents: written as a value with its interval, and read back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from rollshape.gradients.intervals import Estimate
from rollshape.gradients.noise_scale import NoiseScale, NoiseScales

SCALES = tuple(field.name for field in fields(NoiseScales))


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


def write_scales(scales: NoiseScales) -> dict[str, Any]:
    """Return noise scales by name, and their intervals under `ci`."""
    by_name: dict[str, NoiseScale] = {name: getattr(scales, name) for name in SCALES}
    return {
        **{name: scale.value for name, scale in by_name.items()},
        "ci": {name: [scale.low, scale.high] for name, scale in by_name.items()},
        "reason": scales.clustered.reason,
    }


def read_scales(document: Mapping[str, Any]) -> NoiseScales:
    """Return what `write_scales` wrote."""

    def read(name: str) -> NoiseScale:
        low, high = document["ci"][name]
        return NoiseScale(document[name], low, high, document["reason"] if document[name] is None else None)

    return NoiseScales(**{name: read(name) for name in SCALES})


def _number(value: float | None) -> float:
    return math.nan if value is None else value
