"""Estimates of the final scores of all candidates from the runs of a few: a Gaussian process over N and T.

A run y of candidate i is modeled as

    y = μ + s (w·hᵢ + gᵢ + eᵢ + σ·ε)

- g varies smoothly over the shapes: its correlation is exp(−d² / 2ℓ²), where d is the distance in doublings of
  num_envs and num_steps, and half of that between candidates that also differ in other settings;
- e is what a candidate has of its own, ε the noise between seeds; all three are independent and normal;
- h prefers candidates that make about 1,024 updates in the whole run: −(log₂(updates / 1,024) / 2)², at least −4,
  standardized over the candidates;
- the mean μ has a flat prior, and the scale s is estimated from the runs: with n of them, their covariance K, and P =
  K⁻¹ − K⁻¹1 (1ᵀK⁻¹1)⁻¹ 1ᵀK⁻¹, it solves (n − 1) s² = (y − s·h)ᵀ P (y − s·h), here with w·h for h.

So a run says something about similar shapes, too, and a shape that was lucky once is not taken at its word. The
constants were chosen on the tuning tasks of benchmarks/advise.py; what they are worth is measured on others
(docs/advise.md).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rollshape.studies.statistics import Floats, student_quantile

Ints = NDArray[np.int64]

LENGTH = 3.0  # ℓ, in doublings
OTHER_SETTINGS = 0.5  # correlation of candidates of one shape that differ in other settings
OWN_STD = 0.3  # of e, relative to g
NOISE_STD = 0.6  # σ
PRIOR_WEIGHT = 0.5  # w
USUAL_UPDATES, UPDATES_SCALE = 1024, 2.0  # where h is highest, and the doublings after which it has fallen by 1
LOWEST_PRIOR = -4.0
WORSE_LEVEL = 0.95  # probability of being worse, from which on a candidate is ruled out


class Features(NamedTuple):
    """What the model knows of a candidate without training it."""

    num_envs: int
    num_steps: int
    num_updates: int  # in the whole run
    settings: Hashable = ()  # what else distinguishes it from other candidates


@dataclass(frozen=True)
class Estimates:
    """Posterior of the final scores: mean [candidates], covariance [candidates, candidates], scale s.

    With 0 degrees of freedom (at most one run) the scale is unknown: means are only an order, and nothing is ruled out.
    """

    mean: Floats
    covariance: Floats
    scale: float
    degrees: int  # of freedom, of the scale

    @property
    def std(self) -> Floats:
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def half_width(self, candidate: int) -> float:
        """Return half of the 95 % interval of a candidate's score, NaN if the scale is unknown."""
        return student_quantile(self.degrees) * float(self.std[candidate]) if self.degrees else math.nan

    def is_worse(self, candidate: int, other: int) -> bool:
        """Return whether a candidate is worse than another one with a probability above 95 %."""
        if self.degrees == 0:
            return False
        v = self.covariance
        variance = v[candidate, candidate] + v[other, other] - 2 * v[candidate, other]
        limit = student_quantile(self.degrees, WORSE_LEVEL) * math.sqrt(max(float(variance), 0.0))
        return bool(self.mean[other] - self.mean[candidate] > limit)


class ScoreModel:
    """The prior of a race, which runs turn into estimates."""

    def __init__(self, candidates: Sequence[Features]) -> None:
        self._prior = PRIOR_WEIGHT * update_prior([candidate.num_updates for candidate in candidates])
        self._covariance = _similarity(candidates) + OWN_STD**2 * np.eye(len(candidates))

    def estimate(self, runs: Sequence[tuple[int, float]], planned: Sequence[int] = ()) -> Estimates:
        """Return the estimates after runs, each (candidate, score).

        `planned` are candidates that will be run once more: their scores are not known, so they reduce the uncertainty
        only.
        """
        if not runs:
            covariance = self._condition(np.array(planned, int)).covariance if planned else self._covariance
            return Estimates(self._prior, covariance, 1.0, 0)
        index, y = np.array([run[0] for run in runs]), np.array([run[1] for run in runs], np.float64)
        known = self._condition(index)
        h = self._prior[index]
        scale = _scale(y, h, known.precision)
        residual = y - scale * h
        mu = float(known.weights @ residual)
        mean = mu + scale * self._prior + self._covariance[:, index] @ known.inverse @ (residual - mu)
        after = self._condition(np.append(index, planned).astype(int)) if planned else known
        return Estimates(mean, scale**2 * after.covariance, scale, len(y) - 1)

    def _condition(self, index: Ints) -> _Conditional:
        """Condition the process on one run of each of the candidates in `index`; K is the covariance of these runs."""
        runs = self._covariance[np.ix_(index, index)] + NOISE_STD**2 * np.eye(len(index))
        inverse = np.asarray(np.linalg.inv(runs), np.float64)
        sums: Floats = inverse.sum(axis=1)  # K⁻¹1
        mean_variance = 1.0 / float(sums.sum())
        cross = self._covariance[:, index]
        share = 1.0 - cross @ sums  # of an error of μ in an estimate
        covariance = self._covariance - cross @ inverse @ cross.T + mean_variance * np.outer(share, share)
        return _Conditional(inverse, mean_variance * sums, inverse - mean_variance * np.outer(sums, sums), covariance)


class _Conditional(NamedTuple):
    inverse: Floats  # K⁻¹
    weights: Floats  # of the runs in the estimate of μ: K⁻¹1 / 1ᵀK⁻¹1
    precision: Floats  # P = K⁻¹ − K⁻¹1 1ᵀK⁻¹ / 1ᵀK⁻¹1: K⁻¹ if μ is unknown
    covariance: Floats  # of all candidates, in units of s²


def update_prior(num_updates: Sequence[int]) -> Floats:
    """Return h: −(log₂(updates / 1,024) / 2)², at least −4, standardized over the candidates."""
    doublings = np.log2(np.maximum(np.asarray(num_updates, np.float64), 1.0) / USUAL_UPDATES)
    height = np.maximum(-((doublings / UPDATES_SCALE) ** 2), LOWEST_PRIOR)
    result: Floats = (height - height.mean()) / max(float(height.std()), 1e-9)
    return result


def _similarity(candidates: Sequence[Features]) -> Floats:
    """Return the correlation of g between all candidates."""
    place = np.log2([(candidate.num_envs, candidate.num_steps) for candidate in candidates])
    squared = ((place[:, None] - place) ** 2).sum(axis=-1)
    same = [[a.settings == b.settings for b in candidates] for a in candidates]
    result: Floats = np.exp(-squared / (2 * LENGTH**2)) * np.where(same, 1.0, OTHER_SETTINGS)
    return result


def _scale(y: Floats, h: Floats, precision: Floats) -> float:
    """Return s, the solution of (n − 1) s² = (y − s·h)ᵀ P (y − s·h); 1 for a single run."""
    if len(y) == 1:
        return 1.0
    squared, product = float(y @ precision @ y), float(h @ precision @ y)
    degrees = len(y) - 1 - float(h @ precision @ h)
    if degrees <= 0:  # so few runs that differ so much in h say nothing about both
        return math.sqrt(max(squared, 0.0) / (len(y) - 1))
    return (math.sqrt(product**2 + max(squared, 0.0) * degrees) - product) / degrees
