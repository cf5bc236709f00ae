"""How far a shape's mean gradient is off a reference, by paired differences over environments.

A row at T minus the reference row *of the same environment* has the bias b as its mean and little of the noise. |b|² is
the U-statistic of the differences' Gram matrix; being unbiased it may come out negative around zero. The gradient is
linear in the advantage, so the rows of a difference are those of the scores scaled by A_T − A_reference. Always name
the reference: window (same λ, long T), estimator (λ against 1, both at long T) or total (λ = 1, no truncation).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rollshape.gradients.intervals import Estimate, Resampled, norm_estimate


@dataclass(frozen=True, slots=True)
class Bias:
    """|b|² and |b|²/|G|²; the latter is None, with a reason, where the reference shows no signal."""

    squared: Estimate
    relative: Estimate | None
    reason: str | None = None


def bias(difference_gram: ArrayLike, reference_gram: ArrayLike, rng: np.random.Generator) -> Bias:
    """From the Gram matrices [N, N] of the paired differences and of the reference's rows."""
    squared = norm_estimate(difference_gram)
    if norm_estimate(reference_gram).low <= 0:
        envs = len(np.asarray(reference_gram))
        return Bias(
            squared, None, f"no signal: with {envs} environments the reference gradient cannot be told from zero"
        )
    resampled = Resampled({}, {"bias": difference_gram, "norm": reference_gram}, rng)
    relative = resampled.estimate(lambda q: q["bias"] / q["norm"], wider=False)
    return Bias(squared, Estimate(relative.value, max(relative.low, 0.0), max(relative.high, 0.0)))
