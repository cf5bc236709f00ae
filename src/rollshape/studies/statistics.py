"""Few runs, honestly: interquartile means, intervals, probabilities of improvement, rankings (Agarwal et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
ENOUGH = 10  # runs from which on an interquartile mean and a bootstrap say something
RESAMPLES = 2_000
SEPARATED = 0.95
# 97.5 % quantiles of Student's t with 1 … 8 degrees of freedom: all that fewer than ten runs need
_T = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004)


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval; the interval is open (None) where the runs do not bound it."""

    value: float
    low: float | None
    high: float | None
    runs: int
    method: Literal["iqm", "mean", "probability", "regret"]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def interquartile_mean(values: ArrayLike, axis: int = -1) -> Any:
    """Mean of the middle half: ⌊n/4⌋ values are left out at either end."""
    ordered = np.sort(np.asarray(values, np.float64), axis=axis)
    n = ordered.shape[axis]
    return np.take(ordered, np.arange(n // 4, n - n // 4), axis=axis).mean(axis=axis)


def summarised(values: ArrayLike) -> Estimate:
    """From ten runs on the interquartile mean and its bootstrap interval; below, the mean and its t-interval."""
    runs = np.asarray(values, np.float64)
    n = runs.size
    if n >= ENOUGH:
        low, high = bootstrap([runs], lambda drawn: interquartile_mean(drawn[0]))
        return Estimate(float(interquartile_mean(runs)), low, high, n, "iqm")
    mean = float(runs.mean())
    if n < 2:
        return Estimate(mean, None, None, n, "mean")
    half = _T[n - 2] * float(runs.std(ddof=1)) / n**0.5
    return Estimate(mean, mean - half, mean + half, n, "mean")


def bootstrap(
    strata: Sequence[Floats], statistic: Callable[[list[Floats]], Floats], resamples: int = RESAMPLES
) -> tuple[float, float]:
    """The 95 % percentile interval of a statistic, runs redrawn within each stratum (a shape, an environment).

    `statistic` takes the redrawn strata, each [resamples, runs], and gives [resamples].
    """
    low, high = np.quantile(statistic(redrawn(strata, resamples)), (0.025, 0.975))
    return float(low), float(high)


def redrawn(strata: Sequence[Floats], resamples: int) -> list[Floats]:
    """Each stratum resampled with replacement, the same way at every call: a report repeats to the digit."""
    chance = np.random.default_rng(0)
    return [runs[chance.integers(0, runs.size, (resamples, runs.size))] for runs in strata]


def probability_of_improvement(first: ArrayLike, second: ArrayLike) -> Estimate:
    """P(a run of the first scores higher than one of the second), ties counted half, with a stratified bootstrap.

    (1/nm) Σᵢ Σⱼ S(xᵢ, yⱼ), S = 1 if xᵢ > yⱼ, ½ if equal: the Mann–Whitney statistic.
    """
    x, y = np.asarray(first, np.float64), np.asarray(second, np.float64)

    def wins(drawn: list[Floats]) -> Floats:
        difference = drawn[0][..., :, None] - drawn[1][..., None, :]
        shares: Floats = ((np.sign(difference) + 1) / 2).mean(axis=(-2, -1))
        return shares

    low, high = bootstrap([x, y], wins)
    return Estimate(float(wins([x, y])), low, high, min(x.size, y.size), "probability")


def centre(values: Floats) -> Any:
    """What runs are compared by: interquartile mean from ten runs on, else the mean; over the last axis."""
    return interquartile_mean(values) if values.shape[-1] >= ENOUGH else values.mean(axis=-1)


def drawn_centres(strata: Sequence[Floats], draws: int = RESAMPLES) -> Floats:
    """[strata, draws]: centres as they might have come out, in proportion to how likely each is.

    From ten runs on by bootstrap. Fewer would resample to centres that agree too well, so there the mean is drawn from
    its t-distribution, x̄ + s·t/√n: two runs separate almost nothing, one run nothing at all.
    """
    chance = np.random.default_rng(1)
    rows = []
    for runs, again in zip(strata, redrawn(strata, draws), strict=True):
        if runs.size >= ENOUGH:
            rows.append(centre(again))
        elif runs.size > 1:
            error = runs.std(ddof=1) / runs.size**0.5
            rows.append(runs.mean() + error * chance.standard_t(runs.size - 1, draws))
        else:
            rows.append(np.full(draws, np.nan))
    return np.stack(rows)


@dataclass(frozen=True)
class Ranking:
    """A predicted order against the measured scores.

    `regret`: how much lower the predicted best scores than the measured best. `concordant` of `separated`: of the pairs
    whose order the runs settle with a probability above 0.95 (see `drawn_centres`), so many are ordered as predicted.
    """

    predicted_best: str
    measured_best: str
    regret: Estimate
    concordant: int
    separated: int
    pairs: int

    @property
    def concordance(self) -> float | None:
        return self.concordant / self.separated if self.separated else None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"concordance": self.concordance}


def compare_ranking(predicted: Mapping[str, float], measured: Mapping[str, ArrayLike]) -> Ranking:
    """`predicted`: shape → a number that is lower where learning should be better (an MSE); `measured`: shape → scores.

    Only shapes that have both are compared. The regret is measured best − predicted best, its interval that of the
    difference to the best of each draw, so it is never negative.
    """
    names = [name for name in predicted if name in measured]
    if not names:
        raise ValueError("no shape is both predicted and measured")
    strata = [np.asarray(measured[name], np.float64) for name in names]
    centres = np.array([float(centre(runs)) for runs in strata])
    drawn = drawn_centres(strata)
    best = min(range(len(names)), key=lambda i: predicted[names[i]])
    regrets = drawn.max(axis=0) - drawn[best]
    low, high = (None if np.isnan(end) else float(end) for end in np.quantile(regrets, (0.025, 0.975)))
    regret = Estimate(float(centres.max() - centres[best]), low, high, min(map(len, strata)), "regret")
    concordant = separated = 0
    for i in range(len(names)):
        for j in range(i):
            better = float((drawn[i] > drawn[j]).mean())
            worse = float((drawn[i] < drawn[j]).mean())
            if max(better, worse) <= SEPARATED:
                continue
            separated += 1
            ahead = predicted[names[i]] < predicted[names[j]]
            behind = predicted[names[i]] > predicted[names[j]]
            concordant += (better > worse and ahead) or (worse > better and behind)
    pairs = len(names) * (len(names) - 1) // 2
    return Ranking(names[best], names[int(centres.argmax())], regret, concordant, separated, pairs)
