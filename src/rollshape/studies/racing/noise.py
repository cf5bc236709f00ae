"""How much scores differ between seeds, from all candidates of a comparison together.

A race has two or three seeds of its finalists, too few to estimate a variance per shape: Student's t with one degree of
freedom makes an interval 12.7 standard errors wide. Two assumptions give more degrees of freedom: all shapes of a
comparison have the same variance between seeds, and before any second seed it is about half of the variance between
shapes, which counts as two degrees of freedom. Both are checked on the curves of benchmarks/advise.py (docs/advise.md).
Scores of the same seed have nothing in common there, so seeds are not paired.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rollshape.studies.statistics import Floats, student_quantile

EXPECTED_NOISE = 0.5  # variance between seeds as a share of that between candidates
EXPECTED_DEGREES = 2  # degrees of freedom that this expectation counts for
MIN_CANDIDATES = 4  # for a variance between candidates


class Noise(NamedTuple):
    """Variance of a score between seeds, and the degrees of freedom of this estimate; NaN and 0 if it is unknown."""

    variance: float
    degrees: int

    def half_width(self, num_seeds: int) -> float:
        """Return half of the 95 % interval of a mean over seeds, NaN if the noise is unknown."""
        return student_quantile(self.degrees) * math.sqrt(self.variance / num_seeds) if self.degrees else math.nan


UNKNOWN = Noise(math.nan, 0)


def pooled_noise(table: Floats) -> Noise:
    """Return the noise of scores [candidates, seeds], pooled over candidates.

    Σ (yᵢⱼ − ȳᵢ)² / (n (s − 1)) with n (s − 1) degrees of freedom; unknown with one seed.
    """
    candidates, seeds = table.shape
    degrees = candidates * (seeds - 1)
    if degrees == 0:
        return UNKNOWN
    return Noise(float(((table - table.mean(axis=1, keepdims=True)) ** 2).sum() / degrees), degrees)


def with_expectation(noise: Noise, scores: Floats) -> Noise:
    """Return measured noise combined with what `scores` of many candidates let expect.

    (ν s² + ν₀ s₀²) / (ν + ν₀) with ν + ν₀ degrees of freedom, s₀² half of the variance of the scores and ν₀ = 2.
    Unknown noise stays unknown, and fewer than four candidates add nothing.
    """
    if noise.degrees == 0 or scores.size < MIN_CANDIDATES:
        return noise
    expected = EXPECTED_NOISE * float(np.var(scores))
    degrees = noise.degrees + EXPECTED_DEGREES
    return Noise((noise.degrees * noise.variance + EXPECTED_DEGREES * expected) / degrees, degrees)
