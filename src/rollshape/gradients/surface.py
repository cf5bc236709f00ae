"""Variance and bias² of every shape of a rollout_size, from one long rollout.

A window of T steps of a stationary rollout is a sample of what a run with that T collects, so tr Var(G_B) at N×T is
tr Var(window mean at T)/N. All windows of N₀ environments are used; those of one environment are not independent, so
intervals are over environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rollshape.errors import RequestError
from rollshape.gradients.intervals import Bootstrap, Estimate, Floats, estimate_squared_norm


class MeasuredWindows(Protocol):
    """What a surface needs of windows of T steps: see `gradients.windows.Windows`, which is one."""

    @property
    def num_steps(self) -> int: ...
    @property
    def window_norms(self) -> Floats: ...
    @property
    def row_gram(self) -> Floats: ...
    @property
    def bias_gram(self) -> Floats: ...
    @property
    def window_bias_gram(self) -> Floats: ...


@dataclass(frozen=True, slots=True)
class Point:
    """One shape. mse = bias2 + variance is the error of one update, score = bias2 + variance/h that over h updates."""

    num_envs: int
    num_steps: int
    variance: Estimate
    bias2: Estimate
    bias2_window: Estimate
    mse: Estimate
    score: Estimate


def surface(
    rollout_size: int, measured: Sequence[MeasuredWindows], rng: np.random.Generator, horizon: float = 1.0
) -> list[Point]:
    """Return all shapes N×T of a rollout_size whose T was measured, by ascending T; horizon is h of the score."""
    return surfaces([rollout_size], measured, rng, horizon)[rollout_size]


def surfaces(
    rollout_sizes: Sequence[int], measured: Sequence[MeasuredWindows], rng: np.random.Generator, horizon: float = 1.0
) -> dict[int, list[Point]]:
    """Return the surface of every rollout_size, from the same resamples."""
    result: dict[int, list[Point]] = {size: [] for size in rollout_sizes}
    for windows in sorted(measured, key=lambda w: w.num_steps):
        bootstrap = Bootstrap(
            {"window": windows.window_norms}, {"norm": windows.row_gram, "bias": windows.bias_gram}, rng
        )
        for size in rollout_sizes:
            if size % windows.num_steps == 0:
                result[size].append(_point(size // windows.num_steps, windows, bootstrap, horizon))
    for size, points in result.items():
        if not points:
            lengths = ", ".join(str(w.num_steps) for w in measured)
            raise RequestError(
                "rollout-split",
                f"None of the measured windows ({lengths} steps) divides a rollout of {size}.",
                "Use a rollout_size that is a multiple of one of them.",
            )
    return result


def _point(num_envs: int, windows: MeasuredWindows, bootstrap: Bootstrap, horizon: float) -> Point:
    def error(updates: float) -> Estimate:
        """Return bias² + variance/updates; a negative estimate of bias² counts as 0."""
        return bootstrap.estimate(
            lambda q: np.maximum(q["bias"], 0.0) + (q["window"] - q["norm"]) / (num_envs * updates), positive=True
        )

    mse = error(1.0)
    return Point(
        num_envs=num_envs,
        num_steps=windows.num_steps,
        variance=bootstrap.estimate(lambda q: (q["window"] - q["norm"]) / num_envs, positive=True),
        bias2=estimate_squared_norm(windows.bias_gram),
        bias2_window=estimate_squared_norm(windows.window_bias_gram),
        mse=mse,
        score=mse if horizon == 1 else error(horizon),
    )
