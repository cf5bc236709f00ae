"""Estimates of the final scores of all candidates from the runs of a few: a Gaussian process over N and T.

A run y of candidate i is modeled as

    y = μ + s (pᵢ + gᵢ + eᵢ + σ·ε)

- g varies smoothly over the shapes: its correlation is exp(−d² / 2ℓ²), where d is the distance in doublings of
  num_envs and num_steps, and half of this correlation between candidates that also differ in other settings;
- e is what a candidate has of its own, ε the noise between seeds; all three are independent and normal;
- p is the prior: it prefers candidates that make about 1,024 updates in the whole run;
- the mean μ has a flat prior, and the scale s is estimated from the runs: with n of them, their covariance K, and P =
  K⁻¹ − K⁻¹1 (1ᵀK⁻¹1)⁻¹ 1ᵀK⁻¹, s² = yᵀPy / (n − 1 + pᵀPp), which is unbiased.

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
PRIOR_WEIGHT = 1 / 3  # of the prior's height
USUAL_UPDATES, UPDATES_SCALE = 1024, 2.0  # where the height is 0, and the doublings after which it has fallen by 1
LOWEST_PRIOR = -4.0
TINY = 1e-9  # spread of scores, relative to their size, below which they are equal
WORSE_LEVEL = 0.95  # probability of being worse, from which on a candidate is ruled out


class Features(NamedTuple):
    """What the model knows of a candidate without training it."""

    num_envs: int
    num_steps: int
    num_updates: int  # in the whole run
    settings: Hashable = ()  # what else distinguishes it from other candidates


@dataclass(frozen=True)
class Estimates:
    """Posterior of the final scores: mean [candidates], covariance [candidates, candidates].

    `standing` is the mean in units of the scale s, up to a constant, and `unit_covariance` the covariance in units of
    s²: they exist before the scale is known, and also if all scores are equal. Then there are 0 degrees of freedom,
    means say nothing, and nothing is ruled out.
    """

    mean: Floats
    standing: Floats
    unit_covariance: Floats
    scale: float
    degrees: int  # of freedom, of the scale

    @property
    def unit_std(self) -> Floats:
        return np.sqrt(np.maximum(np.diag(self.unit_covariance), 0.0))

    def half_width(self, candidate: int) -> float:
        """Return half of the 95 % interval of a candidate's score, NaN if the scale is unknown."""
        if self.degrees == 0:
            return math.nan
        return student_quantile(self.degrees) * self.scale * float(self.unit_std[candidate])

    def is_worse(self, candidate: int, other: int) -> bool:
        """Return whether a candidate is worse than another one with a probability above 95 %."""
        if self.degrees == 0:
            return False
        v = self.unit_covariance
        variance = v[candidate, candidate] + v[other, other] - 2 * v[candidate, other]
        limit = student_quantile(self.degrees, WORSE_LEVEL) * math.sqrt(max(float(variance), 0.0))
        return bool(self.standing[other] - self.standing[candidate] > limit)


class ScoreModel:
    """The prior of a race, which runs turn into estimates."""

    def __init__(self, candidates: Sequence[Features]) -> None:
        self._prior = update_prior([candidate.num_updates for candidate in candidates])
        self._covariance = _similarity(candidates) + OWN_STD**2 * np.eye(len(candidates))

    def estimate(self, runs: Sequence[tuple[int, float]], planned: Sequence[int] = ()) -> Estimates:
        """Return the estimates after runs, each (candidate, score).

        `planned` are candidates that will be run once more: their scores are not known, so they reduce the uncertainty
        only.
        """
        index = np.array([run[0] for run in runs], np.int64)
        after = self._condition(np.append(index, np.array(planned, np.int64)))
        if not runs:
            return Estimates(self._prior, self._prior, after.covariance, 1.0, 0)
        y, prior = np.array([run[1] for run in runs], np.float64), self._prior[index]
        known = self._condition(index)
        scale = _scale(y, prior, known.precision)
        mean = float(known.weights @ y)
        deviation = (y - mean) / scale if scale else np.zeros_like(y)
        surprise = deviation - (prior - known.weights @ prior)
        standing = self._prior + self._covariance[:, index] @ known.inverse @ surprise
        estimates = mean + scale * (standing - float(known.weights @ prior))
        return Estimates(estimates, standing, after.covariance, scale, len(y) - 1 if scale else 0)

    def _condition(self, index: Ints) -> _Conditional:
        """Condition the process on one run of each of the candidates in `index`; K is the covariance of these runs."""
        if not len(index):
            return _Conditional(np.zeros((0, 0)), np.zeros(0), np.zeros((0, 0)), self._covariance)
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
    """Return p: a third of −(log₂(updates / 1,024) / 2)², at least −4/3."""
    doublings = np.log2(np.maximum(np.asarray(num_updates, np.float64), 1.0) / USUAL_UPDATES)
    result: Floats = PRIOR_WEIGHT * np.maximum(-((doublings / UPDATES_SCALE) ** 2), LOWEST_PRIOR)
    return result


def _similarity(candidates: Sequence[Features]) -> Floats:
    """Return the correlation of g between all candidates."""
    place = np.log2([(candidate.num_envs, candidate.num_steps) for candidate in candidates])
    squared = ((place[:, None] - place) ** 2).sum(axis=-1)
    same = [[a.settings == b.settings for b in candidates] for a in candidates]
    result: Floats = np.exp(-squared / (2 * LENGTH**2)) * np.where(same, 1.0, OTHER_SETTINGS)
    return result


def _scale(y: Floats, prior: Floats, precision: Floats) -> float:
    """Return s, 0 if there is one run or all scores are equal: yᵀPy has the expectation s² (n − 1 + pᵀPp)."""
    deviation = y - y.mean()
    if np.abs(deviation).max() <= TINY * np.abs(y).max():
        return 0.0
    return math.sqrt(float(deviation @ precision @ deviation) / (len(y) - 1 + float(prior @ precision @ prior)))
