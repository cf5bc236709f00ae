"""Bias of a shape's mean gradient against a reference, from paired differences over environments.

A row at T minus the reference row *of the same environment* has the bias b as its mean and little of the noise. |b|² is
the U-statistic of the Gram matrix of these differences; it is unbiased and may therefore be negative near zero. The
gradient is linear in the advantage, so the rows of a difference are those of the scores scaled by A_T − A_reference.
There are three references: window (same λ, long T), estimator (λ = 1 instead of λ, both at long T) and total (λ = 1,
no truncation).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rollshape.gradients.intervals import Bootstrap, Estimate, estimate_squared_norm


@dataclass(frozen=True, slots=True)
class Bias:
    """|b|² and |b|²/|G|²; `relative` is None, with a reason, where the reference shows no signal."""

    squared: Estimate
    relative: Estimate | None
    reason: str | None = None


def bias(difference_gram: ArrayLike, reference_gram: ArrayLike, rng: np.random.Generator) -> Bias:
    """Estimate the bias from the Gram matrices [N, N] of the paired differences and of the reference rows."""
    squared = estimate_squared_norm(difference_gram)
    if estimate_squared_norm(reference_gram).low <= 0:
        envs = len(np.asarray(reference_gram))
        reason = f"no signal: with {envs} environments the reference gradient is not significantly different from zero"
        return Bias(squared, None, reason)
    bootstrap = Bootstrap({}, {"bias": difference_gram, "norm": reference_gram}, rng)
    relative = bootstrap.estimate(lambda q: q["bias"] / q["norm"], wider=False)
    return Bias(squared, Estimate(relative.value, max(relative.low, 0.0), max(relative.high, 0.0)))
