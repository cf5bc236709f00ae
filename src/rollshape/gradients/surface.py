"""Variance and bias² of every shape of a rollout_size, from one long rollout.

A window of T steps of a stationary rollout is a sample of what a run with that T collects, so tr Var(G_B) at N×T is
tr Var(window mean at T)/N. All windows of N₀ environments are used; those of one environment are not independent, so
intervals are over environments.

The windows of all T come from the same environments, so the errors of two shapes have noise in common, above all that
of the bias of λ < 1, which no T avoids. A difference is therefore estimated from resamples of both at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from rollshape.errors import RequestError
from rollshape.gradients.intervals import Bootstrap, Estimate, Floats, estimate_squared_norm

Criterion = Literal["mse", "score"]


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
    """One shape. mse = bias2 + variance is the error of one update, score = bias2 + variance/h that over h updates.

    Differences are those to the shape of the run, by paired resamples; None for that shape and where it is unknown.
    """

    num_envs: int
    num_steps: int
    variance: Estimate
    bias2: Estimate
    bias2_window: Estimate
    mse: Estimate
    score: Estimate
    mse_difference: Estimate | None = None
    score_difference: Estimate | None = None

    def error(self, criterion: Criterion) -> Estimate:
        return self.mse if criterion == "mse" else self.score

    def difference(self, criterion: Criterion) -> Estimate | None:
        return self.mse_difference if criterion == "mse" else self.score_difference


def surface(
    rollout_size: int,
    measured: Sequence[MeasuredWindows],
    rng: np.random.Generator,
    horizon: float = 1.0,
    run_steps: int | None = None,
) -> list[Point]:
    """Return all shapes N×T of a rollout_size whose T was measured, by ascending T.

    `horizon` is h of the score, `run_steps` the T that the others are compared with.
    """
    return surfaces([rollout_size], measured, rng, horizon, run_steps)[rollout_size]


def surfaces(
    rollout_sizes: Sequence[int],
    measured: Sequence[MeasuredWindows],
    rng: np.random.Generator,
    horizon: float = 1.0,
    run_steps: int | None = None,
) -> dict[int, list[Point]]:
    """Return the surface of every rollout_size, from the same resamples."""
    ordered = sorted(measured, key=lambda w: w.num_steps)
    if run_steps not in [w.num_steps for w in ordered]:
        run_steps = None
    means = {f"window {w.num_steps}": w.window_norms for w in ordered}
    norms = {f"norm {w.num_steps}": w.row_gram for w in ordered} | {f"bias {w.num_steps}": w.bias_gram for w in ordered}
    bootstrap = Bootstrap(means, norms, rng)
    result: dict[int, list[Point]] = {
        size: [
            _point(size, windows, run_steps, bootstrap, horizon) for windows in ordered if size % windows.num_steps == 0
        ]
        for size in rollout_sizes
    }
    for size, points in result.items():
        if not points:
            lengths = ", ".join(str(w.num_steps) for w in measured)
            raise RequestError(
                "rollout-split",
                f"None of the measured windows ({lengths} steps) divides a rollout of {size}.",
                "Use a rollout_size that is a multiple of one of them.",
            )
    return result


def _point(
    rollout_size: int, windows: MeasuredWindows, run_steps: int | None, bootstrap: Bootstrap, horizon: float
) -> Point:
    """Return the shape of windows, compared with that of the run, if that has been measured and fits the size."""
    steps, num_envs = windows.num_steps, rollout_size // windows.num_steps

    def variance(q: Mapping[str, Floats], num_steps: int) -> Floats:
        return (q[f"window {num_steps}"] - q[f"norm {num_steps}"]) / (rollout_size // num_steps)

    def estimate_error(updates: float) -> Estimate:
        """Return bias² + variance/updates; a negative estimate of bias² counts as 0."""
        return bootstrap.estimate(
            lambda q: np.maximum(q[f"bias {steps}"], 0.0) + variance(q, steps) / updates, positive=True
        )

    def estimate_difference(updates: float) -> Estimate | None:
        """Return the difference without that: two errors of bias² = 0 would differ by next to nothing, too surely."""
        if run_steps is None or run_steps == steps or rollout_size % run_steps:
            return None
        return bootstrap.estimate(
            lambda q: q[f"bias {steps}"] + variance(q, steps) / updates
            - q[f"bias {run_steps}"] - variance(q, run_steps) / updates
        )  # fmt: skip

    mse, difference = estimate_error(1.0), estimate_difference(1.0)
    return Point(
        num_envs=num_envs,
        num_steps=steps,
        variance=bootstrap.estimate(lambda q: variance(q, steps), positive=True),
        bias2=estimate_squared_norm(windows.bias_gram),
        bias2_window=estimate_squared_norm(windows.window_bias_gram),
        mse=mse,
        score=mse if horizon == 1 else estimate_error(horizon),
        mse_difference=difference,
        score_difference=difference if horizon == 1 else estimate_difference(horizon),
    )
