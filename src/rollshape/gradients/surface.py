"""Variance and bias² of every shape of a rollout_size, from one long rollout.

A window of T steps of a stationary rollout is a sample of what a run with that T collects, so tr Var(G_B) at N×T is
tr Var(window mean at T)/N. All windows of N₀ environments are used; those of one environment are not independent, so
intervals are over environments.

The windows of all T come from the same environments, so the errors of two shapes have noise in common, above all that
of the bias of λ < 1, which no T avoids. A difference is therefore estimated from resamples of both at once.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    result: dict[int, list[Point]] = {size: [] for size in rollout_sizes}
    for windows in sorted(measured, key=lambda w: w.num_steps):
        base = next((w for w in measured if w.num_steps == run_steps and w is not windows), None)
        means, norms = {"window": windows.window_norms}, {"norm": windows.row_gram, "bias": windows.bias_gram}
        if base is not None:
            means |= {"run_window": base.window_norms}
            norms |= {"run_norm": base.row_gram, "run_bias": base.bias_gram}
        bootstrap = Bootstrap(means, norms, rng)
        for size in rollout_sizes:
            if size % windows.num_steps == 0:
                run_envs = size // base.num_steps if base is not None and size % base.num_steps == 0 else None
                result[size].append(_point(size // windows.num_steps, run_envs, windows, bootstrap, horizon))
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
    num_envs: int, run_envs: int | None, windows: MeasuredWindows, bootstrap: Bootstrap, horizon: float
) -> Point:
    """Return the shape of windows, compared with that of the run, which has `run_envs` environments, if it is known."""

    def estimate_error(updates: float) -> Estimate:
        """Return bias² + variance/updates; a negative estimate of bias² counts as 0."""
        return bootstrap.estimate(
            lambda q: np.maximum(q["bias"], 0.0) + (q["window"] - q["norm"]) / (num_envs * updates), positive=True
        )

    def estimate_difference(updates: float) -> Estimate | None:
        """Return the difference without that: two errors of bias² = 0 would differ by next to nothing, too surely."""
        if run_envs is None:
            return None
        scale, run_scale = num_envs * updates, run_envs * updates
        return bootstrap.estimate(
            lambda q: q["bias"] + (q["window"] - q["norm"]) / scale
            - q["run_bias"] - (q["run_window"] - q["run_norm"]) / run_scale
        )  # fmt: skip

    mse, difference = estimate_error(1.0), estimate_difference(1.0)
    return Point(
        num_envs=num_envs,
        num_steps=windows.num_steps,
        variance=bootstrap.estimate(lambda q: (q["window"] - q["norm"]) / num_envs, positive=True),
        bias2=estimate_squared_norm(windows.bias_gram),
        bias2_window=estimate_squared_norm(windows.window_bias_gram),
        mse=mse,
        score=mse if horizon == 1 else estimate_error(horizon),
        mse_difference=difference,
        score_difference=difference if horizon == 1 else estimate_difference(horizon),
    )
