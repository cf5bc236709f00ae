"""Every shape of a rollout_size from one long rollout: variance, bias² and what learning sees of both.

A window of T steps cut from a stationary rollout is a draw of what a run at that T would see, so
tr Var(G_B) at N×T is tr Var(window mean at T)/N. All windows of N₀ environments are used; those of one environment are
not independent, so intervals are taken over environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rollshape.errors import RequestError
from rollshape.gradients.intervals import Estimate, Resampled, norm_estimate
from rollshape.gradients.windows import Windows


@dataclass(frozen=True, slots=True)
class Point:
    """One shape. mse = bias2 + variance is one update's; score = bias2 + variance/h is that of h updates in a row."""

    num_envs: int
    num_steps: int
    variance: Estimate
    bias2: Estimate
    bias2_window: Estimate
    mse: Estimate
    score: Estimate


def surface(
    rollout_size: int, measured: Sequence[Windows], rng: np.random.Generator, horizon: float = 1.0
) -> list[Point]:
    """All shapes N×T of a rollout_size whose T was measured, by rising T; horizon is h of the score."""
    return surfaces([rollout_size], measured, rng, horizon)[rollout_size]


def surfaces(
    rollout_sizes: Sequence[int], measured: Sequence[Windows], rng: np.random.Generator, horizon: float = 1.0
) -> dict[int, list[Point]]:
    """The surface of every rollout_size, from the same resamples."""
    found: dict[int, list[Point]] = {size: [] for size in rollout_sizes}
    for cut in sorted(measured, key=lambda w: w.num_steps):
        resampled = Resampled({"window": cut.window_norms}, {"norm": cut.row_gram, "bias": cut.bias_gram}, rng)
        for size in rollout_sizes:
            if size % cut.num_steps == 0:
                found[size].append(_point(size // cut.num_steps, cut, resampled, horizon))
    for size, points in found.items():
        if not points:
            lengths = ", ".join(str(w.num_steps) for w in measured)
            raise RequestError(
                "rollout-split",
                f"No measured window ({lengths} steps) divides a rollout of {size}.",
                "Use a rollout_size that is a multiple of one of them.",
            )
    return found


def _point(num_envs: int, cut: Windows, resampled: Resampled, horizon: float) -> Point:
    def error(updates: float) -> Estimate:
        """A squared bias estimated as negative counts as none."""
        return resampled.estimate(
            lambda q: np.maximum(q["bias"], 0.0) + (q["window"] - q["norm"]) / (num_envs * updates), positive=True
        )

    mse = error(1.0)
    return Point(
        num_envs=num_envs,
        num_steps=cut.num_steps,
        variance=resampled.estimate(lambda q: (q["window"] - q["norm"]) / num_envs, positive=True),
        bias2=norm_estimate(cut.bias_gram),
        bias2_window=norm_estimate(cut.window_bias_gram),
        mse=mse,
        score=mse if horizon == 1 else error(horizon),
    )
