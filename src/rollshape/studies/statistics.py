"""Statistics of few runs (Agarwal et al. 2021): interquartile means, intervals, probability of improvement, ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
MIN_BOOTSTRAP_RUNS = 10  # with fewer runs a bootstrap is too narrow
NUM_RESAMPLES = 2_000
FAMILY_LEVEL = 0.95  # of all pairs together, in each direction


@dataclass(frozen=True)
class Summary:
    """A statistic of several runs with its 95 % interval; an end is None where the runs do not bound it."""

    value: float
    low: float | None
    high: float | None
    runs: int
    method: Literal["iqm", "mean", "probability", "regret", "difference"]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        """Return `412 [380, 440]`."""
        if self.low is None or self.high is None:
            return f"{self.value:.4g} (one run: no interval)"
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


def interquartile_mean(values: ArrayLike, axis: int = -1) -> Any:
    """Return the mean of the middle half: ⌊n/4⌋ values are dropped at either end."""
    ordered = np.sort(np.asarray(values, np.float64), axis=axis)
    n = ordered.shape[axis]
    return np.take(ordered, np.arange(n // 4, n - n // 4), axis=axis).mean(axis=axis)


def summarize(values: ArrayLike) -> Summary:
    """Return the interquartile mean with a bootstrap interval from ten runs on, else the mean with a t-interval."""
    runs = np.asarray(values, np.float64)
    n = runs.size
    if n >= MIN_BOOTSTRAP_RUNS:
        low, high = bootstrap_interval([runs], lambda resamples: interquartile_mean(resamples[0]))
        return Summary(float(interquartile_mean(runs)), low, high, n, "iqm")
    mean = float(runs.mean())
    if n < 2:
        return Summary(mean, None, None, n, "mean")
    half = student_quantile(n - 1) * float(runs.std(ddof=1)) / n**0.5
    return Summary(mean, mean - half, mean + half, n, "mean")


def student_quantile(degrees_of_freedom: int, probability: float = 0.975) -> float:
    """Return a quantile of Student's t-distribution, by default the one of a two-sided 95 % interval."""
    from scipy.special import stdtrit  # scipy.stats.t.ppf, which takes a second to import, calls the same function

    return float(stdtrit(degrees_of_freedom, probability))


def bootstrap_interval(
    strata: Sequence[Floats], statistic: Callable[[list[Floats]], Floats], num_resamples: int = NUM_RESAMPLES
) -> tuple[float, float]:
    """Return the 95 % percentile interval of a statistic; runs are resampled within each stratum (a shape, a task).

    `statistic` maps the resampled strata, each [num_resamples, runs], to [num_resamples].
    """
    low, high = np.quantile(statistic(resample(strata, num_resamples)), (0.025, 0.975))
    return float(low), float(high)


def resample(strata: Sequence[Floats], num_resamples: int) -> list[Floats]:
    """Resample each stratum with replacement, with a fixed seed: a report repeats to the digit."""
    rng = np.random.default_rng(0)
    return [runs[rng.integers(0, runs.size, (num_resamples, runs.size))] for runs in strata]


def probability_of_improvement(first: ArrayLike, second: ArrayLike) -> Summary:
    """Return P(a run of `first` scores higher than one of `second`) with a stratified bootstrap interval.

    (1/nm) Σᵢ Σⱼ S(xᵢ, yⱼ), S = 1 if xᵢ > yⱼ, ½ if equal: the Mann–Whitney statistic.
    """
    x, y = np.asarray(first, np.float64), np.asarray(second, np.float64)

    def win_shares(strata: list[Floats]) -> Floats:
        difference = strata[0][..., :, None] - strata[1][..., None, :]
        shares: Floats = ((np.sign(difference) + 1) / 2).mean(axis=(-2, -1))
        return shares

    low, high = bootstrap_interval([x, y], win_shares)
    return Summary(float(win_shares([x, y])), low, high, min(x.size, y.size), "probability")


def center(values: Floats) -> Any:
    """Return the interquartile mean of ten runs or more, else the mean; over the last axis."""
    return interquartile_mean(values) if values.shape[-1] >= MIN_BOOTSTRAP_RUNS else values.mean(axis=-1)


def sample_centers(strata: Sequence[Floats], num_samples: int = NUM_RESAMPLES) -> Floats:
    """Sample the center of each stratum, [strata, num_samples].

    Ten runs or more are bootstrapped. Fewer runs resample to centers that agree too well, so there the mean is sampled
    from its t-distribution, x̄ + s·t/√n. The center of a single run is unknown: NaN.
    """
    rng = np.random.default_rng(1)
    rows = []
    for runs, resamples in zip(strata, resample(strata, num_samples), strict=True):
        if runs.size >= MIN_BOOTSTRAP_RUNS:
            rows.append(center(resamples))
        elif runs.size > 1:
            standard_error = runs.std(ddof=1) / runs.size**0.5
            rows.append(runs.mean() + standard_error * rng.standard_t(runs.size - 1, num_samples))
        else:
            rows.append(np.full(num_samples, np.nan))
    return np.stack(rows)


def separation_level(num_pairs: int) -> float:
    """Return the probability above which a pair is separated, 1 − 0.05/p for p pairs (Bonferroni)."""
    return 1 - (1 - FAMILY_LEVEL) / max(1, num_pairs)


def separate(scores: Mapping[str, ArrayLike]) -> dict[tuple[str, str], int]:
    """Return for every pair of groups, in both orders, 1 if the second is separated and higher, −1 if lower, else 0.

    Two groups are separated when one center is above the other with a probability over `separation_level`. This is the
    only criterion of a significant difference in verdicts and reports. Centers are sampled in the order of the names,
    so that the result does not depend on that of the mapping.
    """
    names = sorted(scores)
    if not names:
        return {}
    samples = sample_centers([np.asarray(scores[name], np.float64) for name in names])
    level = separation_level(len(names) * (len(names) - 1) // 2)
    signs = {}
    for i, j in combinations(range(len(names)), 2):
        sign = int((samples[j] > samples[i]).mean() > level) - int((samples[j] < samples[i]).mean() > level)
        signs[names[i], names[j]], signs[names[j], names[i]] = sign, -sign
    return signs


def difference_of_centers(first: ArrayLike, second: ArrayLike) -> Summary:
    """Return the center of `second` minus that of `first`; few runs do not narrow its interval (`sample_centers`)."""
    strata = [np.asarray(runs, np.float64) for runs in (first, second)]
    samples = sample_centers(strata)
    low, high = (None if np.isnan(end) else float(end) for end in np.quantile(samples[1] - samples[0], (0.025, 0.975)))
    value = float(center(strata[1]) - center(strata[0]))
    return Summary(value, low, high, min(map(len, strata)), "difference")


def difference_of_summaries(first: Summary, second: Summary) -> Summary:
    """Return `second` minus `first` where only the summaries are known, by the square-and-add method (MOVER).

    low = d − √((x₂ − l₂)² + (u₁ − x₁)²) and high = d + √((u₂ − x₂)² + (x₁ − l₁)²) with d = x₂ − x₁.
    """
    value, runs = second.value - first.value, min(first.runs, second.runs)
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return Summary(value, None, None, runs, "difference")
    below = float(np.hypot(second.value - second.low, first.high - first.value))
    above = float(np.hypot(second.high - second.value, first.value - first.low))
    return Summary(value, value - below, value + above, runs, "difference")


@dataclass(frozen=True)
class RankingComparison:
    """A predicted order of shapes against their measured scores.

    `regret` is how much lower the predicted best scores than the measured best. Of all `pairs` that have a prediction,
    the runs separate `separated` ones, as in a verdict (`separate`), and `concordant` of these are in the predicted
    order.
    """

    predicted_best: str
    measured_best: str
    regret: Summary
    concordant: int
    separated: int
    pairs: int

    @property
    def concordance(self) -> float | None:
        return self.concordant / self.separated if self.separated else None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"concordance": self.concordance}


def compare_ranking(predicted: Mapping[str, float], measured: Mapping[str, ArrayLike]) -> RankingComparison:
    """Compare `predicted` errors (shape → MSE, lower is better) with `measured` scores (shape → one per run).

    Only shapes that have both are compared. The regret is measured best − predicted best; its interval is that of the
    difference to the best shape of each sample, so it is never negative.
    """
    names = [name for name in predicted if name in measured]
    if not names:
        raise ValueError("no shape is both predicted and measured")
    strata = [np.asarray(measured[name], np.float64) for name in names]
    centers = np.array([float(center(runs)) for runs in strata])
    samples = sample_centers(strata)
    best = min(range(len(names)), key=lambda i: predicted[names[i]])
    regrets = samples.max(axis=0) - samples[best]
    low, high = (None if np.isnan(end) else float(end) for end in np.quantile(regrets, (0.025, 0.975)))
    regret = Summary(float(centers.max() - centers[best]), low, high, min(map(len, strata)), "regret")
    signs = separate(measured)  # of all groups, also those without a prediction: a verdict counts the same pairs
    pairs = list(combinations(names, 2))
    separated = [pair for pair in pairs if signs[pair]]
    concordant = sum((predicted[first] - predicted[second]) * signs[first, second] > 0 for first, second in separated)
    return RankingComparison(
        names[best], names[int(centers.argmax())], regret, concordant, len(separated), len(pairs)
    )  # fmt: skip
