"""The critic's side: how good its targets are at each T, for at short T values propagate only T steps an update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from rollshape.gradients.intervals import Estimate, Resampled
from rollshape.gradients.surface import Point
from rollshape.probes.collect import Stream, estimates
from rollshape.training.spec import Spec


@dataclass(frozen=True, slots=True)
class TargetPoint:
    """Value targets R of windows of T: E[R − R_reference], and Var(R − V), the noise around what the critic says.

    `gradient` is the surface's point for the gradient of (V − R)².
    """

    num_steps: int
    bias: Estimate
    variance: Estimate
    gradient: Point


def target_points(
    spec: Spec, stream: Stream, gradients: Sequence[Point], rng: np.random.Generator
) -> list[TargetPoint]:
    """One for each point of the critic's surface."""
    reference = estimates(spec, stream, lam=1.0)[1]
    points = []
    for gradient in gradients:
        target = estimates(spec, stream, gradient.num_steps)[1]
        size = target.shape[1]
        residual = target - stream.value[:, :size]
        means = {
            "bias": (target - reference[:, :size]).mean(1),
            "residual": residual.mean(1),
            "square": (residual**2).mean(1),
        }
        resampled = Resampled({name: jnp.asarray(value) for name, value in means.items()}, {}, rng)
        points.append(
            TargetPoint(
                gradient.num_steps,
                resampled.estimate(lambda q: q["bias"]),
                resampled.estimate(lambda q: q["square"] - q["residual"] ** 2, positive=True),
                gradient,
            )
        )
    return points
