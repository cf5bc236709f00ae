"""Learning curves: aligned by timesteps, by seconds and by gradient steps, which tell three stories; areas, thresholds.

A curve is (x [k], y [k]), x rising. Scores are those of fresh episodes (`eval_return`), never the training return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rollshape.studies.statistics import RESAMPLES, Floats, summarised

Alignment = Literal["timesteps", "seconds", "gradient_steps"]
ALIGNMENTS: tuple[Alignment, ...] = ("timesteps", "seconds", "gradient_steps")


class Curve(NamedTuple):
    x: Floats
    y: Floats


def curve(
    rows: Sequence[Mapping[str, Any]],
    by: Alignment,
    gradient_steps_per_update: int,
    metric: str = "eval_return",
) -> Curve:
    """A run's metric against timesteps, seconds of collecting and updating (Σ Δtimesteps/sps), or gradient steps.

    Seconds leave out compiling and scoring, and go on where a run was resumed. Rows without the metric are left out.
    """
    timesteps = np.array([row["timesteps"] for row in rows], np.float64)
    if by == "timesteps":
        x = timesteps
    elif by == "seconds":
        x = np.cumsum(np.diff(timesteps, prepend=0.0) / np.array([row["sps"] for row in rows], np.float64))
    else:
        x = np.array([row["update"] for row in rows], np.float64) * gradient_steps_per_update
    y = np.array([np.nan if row[metric] is None else row[metric] for row in rows], np.float64)
    seen = np.isfinite(y)
    return Curve(x[seen], y[seen])


def on_grid(curves: Sequence[Curve], grid: ArrayLike) -> Floats:
    """[curves, grid]: each interpolated linearly between its points, NaN before its first and after its last."""
    points = np.asarray(grid, np.float64)
    return np.stack([np.interp(points, x, y, left=np.nan, right=np.nan) for x, y in curves])


def common_grid(curves: Sequence[Curve], points: int = 100) -> Floats:
    """Points from the first x that all curves have to the last that any has."""
    return np.linspace(max(x[0] for x, _ in curves), max(x[-1] for x, _ in curves), points)


def band(curves: Sequence[Curve], grid: ArrayLike) -> dict[str, list[float | None]]:
    """Centre and 95 % interval of the runs at each point of a grid; null where not every run reaches."""
    columns = on_grid(curves, grid).T
    found = [summarised(column).to_dict() if np.isfinite(column).all() else {} for column in columns]
    return {name: [each.get(name) for each in found] for name in ("value", "low", "high")}


def area_under(line: Curve, until: float | None = None) -> float:
    """Mean height from the first point to the last, or to `until`: ∫ y dx / (x₁ − x₀), by trapezia."""
    x, y = line
    if until is not None and x[0] < until < x[-1]:
        y = np.append(y[x < until], np.interp(until, x, y))
        x = np.append(x[x < until], until)
    if len(x) == 1:
        return float(y[0])
    return float(np.trapezoid(y, x) / (x[-1] - x[0]))


@dataclass(frozen=True)
class Reached:
    """When runs first scored a threshold. Those that never did are censored at the end of their curve, not left out.

    `median` is Kaplan–Meier's: null where fewer than half get there; so may be the interval's `high`.
    """

    threshold: float
    reached: int
    runs: int
    median: float | None
    low: float | None
    high: float | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def first_reaching(line: Curve, threshold: float) -> tuple[float, bool]:
    """(x of the first score at or above the threshold, true), or (the last x, false)."""
    above = np.flatnonzero(line.y >= threshold)
    return (float(line.x[above[0]]), True) if above.size else (float(line.x[-1]), False)


def to_threshold(curves: Sequence[Curve], threshold: float, resamples: int = RESAMPLES) -> Reached:
    """Samples, seconds or gradient steps (whatever x is) until half of the runs have scored the threshold."""
    found = [first_reaching(line, threshold) for line in curves]
    times, events = np.array([time for time, _ in found]), np.array([event for _, event in found])
    chance = np.random.default_rng(0)
    drawn = chance.integers(0, len(found), (resamples, len(found)))
    medians = np.sort(_medians(times[drawn], events[drawn]))
    low, high = medians[int(0.025 * resamples)], medians[int(0.975 * resamples)]
    [median] = _medians(times[None], events[None])
    return Reached(threshold, int(events.sum()), len(found), *(_bounded(value) for value in (median, low, high)))


def _bounded(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _medians(times: Floats, events: Any) -> Floats:
    """Kaplan–Meier, for samples [R, n]: the first time at which S(t) = Π (1 − dᵢ/nᵢ) ≤ ½; infinite if it never is.

    Run by run the product is the same: (n − d)/n = (n − 1)/n · (n − 2)/(n − 1) ⋯, who got there before who gave up.
    """
    order = np.lexsort((~events, times), axis=-1)
    times, events = (np.take_along_axis(each, order, -1) for each in (times, events))
    survival = np.cumprod(1 - events / np.arange(times.shape[1], 0, -1), axis=1)
    half = survival <= 0.5 + 1e-12
    return np.where(half.any(1), np.take_along_axis(times, half.argmax(1)[:, None], 1)[:, 0], np.inf)
