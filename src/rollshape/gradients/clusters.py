"""Variance and noise scale of a gradient from any independent clusters of steps, also few or of different sizes.

A cluster is what does not correlate with others: an environment's window or, where there are few environments, an
episode. With S_c the sum of a cluster's L_c step gradients g and M = Σ L_c,

u = (|ΣS_c|² − Σ|S_c|²)/(M² − ΣL_c²)              pairs of different clusters: |G|² without plug-in bias
tr Var(G_B) = C/(C − 1)·Σ|S_c − L_c·Ḡ|²/M²         the cluster-robust variance of the mean Ḡ = ΣS_c/M
σ² = Σ|g|²/M − u                                   of a single step

For clusters of one size these are the estimators of `variance`. Intervals are by the delete-one jackknife with
Student's quantile, on the logarithmic scale for what is positive; `variance` has better ones from 32 environments on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rollshape.gradients.intervals import Estimate, Floats, student_quantile
from rollshape.gradients.noise_scale import NoiseScale, NoiseScales

FEWEST = 8  # clusters from which a variance is estimated


@dataclass(frozen=True)
class Clusters:
    """C clusters: the Gram matrix of their sums [C, C], their sizes [C], and Σ|g|² of their steps [C]."""

    gram: Floats
    sizes: Floats
    squares: Floats


@dataclass(frozen=True)
class ClusterEstimates:
    """Estimates for a rollout of a given size, by name: total, individual, covariance, squared_norm, …"""

    variance: Mapping[str, Estimate]
    effective_sample_size: Estimate
    noise_scale: NoiseScales


def cluster_estimates(clusters: Clusters, rollout_size: int) -> ClusterEstimates:
    """Estimate for a rollout of `rollout_size` steps, of which the clusters may be a part."""
    moments, left_out = _moments(clusters), _left_out(clusters)

    def estimate(statistic: Callable[[Mapping[str, Floats]], Floats], positive: bool = False) -> Estimate:
        return _jackknife(statistic(moments), statistic(left_out), positive)

    def signal(statistic: Callable[[Mapping[str, Floats]], Floats]) -> NoiseScale:
        return _invert(estimate(statistic), len(clusters.sizes))

    size = float(rollout_size)
    return ClusterEstimates(
        variance={
            "total": estimate(lambda m: m["step_cluster"] / size, True),
            "individual": estimate(lambda m: m["step"] / size, True),
            "covariance": estimate(lambda m: (m["step_cluster"] - m["step"]) / size),
            "squared_norm": estimate(lambda m: m["norm"]),
            "step_variance": estimate(lambda m: m["step"], True),
            "correlation_time": estimate(lambda m: m["step_cluster"] / m["step"], True),
        },
        effective_sample_size=estimate(lambda m: size * m["step"] / m["step_cluster"], True),
        noise_scale=NoiseScales(
            clustered=signal(lambda m: m["norm"] / m["step_cluster"]),
            individual=signal(lambda m: m["norm"] / m["step"]),
            naive=_naive(moments),
        ),
    )


def _moments(clusters: Clusters) -> dict[str, Floats]:
    """Return |G|², σ², σ²·τ (the variance of the mean times its size) and what the naive noise scale needs."""
    return {name: values[0] for name, values in _subsets(clusters, np.zeros((1, len(clusters.sizes)))).items()}


def _left_out(clusters: Clusters) -> dict[str, Floats]:
    """Return the same with every cluster left out in turn, [C]."""
    return _subsets(clusters, np.eye(len(clusters.sizes)))


def _subsets(clusters: Clusters, omitted: Floats) -> dict[str, Floats]:
    """Return the moments of subsets, each without the clusters that a row of `omitted` [R, C] marks with 1."""
    kept = 1.0 - omitted
    sizes, norms = clusters.sizes, np.diag(clusters.gram)
    count, total = kept.sum(1), kept @ sizes
    size_squares, norm_sum = kept @ sizes**2, kept @ norms
    along = kept @ clusters.gram  # ⟨ΣS, S_c⟩
    mean_squared = (along * kept).sum(1)  # |ΣS|²
    norm = (mean_squared - norm_sum) / (total**2 - size_squares)
    cross = (along * kept) @ sizes  # ΣL_c⟨S_c, ΣS⟩
    deviations = norm_sum - 2 * cross / total + size_squares * mean_squared / total**2
    step = (kept @ clusters.squares) / total
    return {
        "norm": norm,
        "step": step - norm,
        "step_cluster": np.maximum(deviations * count / (count - 1) / total, 0.0),
        "pairs": (mean_squared / total - step) / (total - 1),
        "square": step,
    }


def _jackknife(value: Floats, left_out: Floats, positive: bool) -> Estimate:
    """Return value and interval from the values with one of C clusters left out."""
    center, count = float(value), len(left_out)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log(left_out) if positive else left_out
    if not np.isfinite(values).all() or (positive and center <= 0):
        return Estimate(center, math.nan, math.nan)
    deviation = math.sqrt((count - 1) / count * float(((values - values.mean()) ** 2).sum()))
    half = student_quantile(count - 1) * deviation
    if positive:
        return Estimate(center, center * math.exp(-half), center * math.exp(min(half, 700.0)))
    return Estimate(center, center - half, center + half)


def _invert(ratio: Estimate, count: int) -> NoiseScale:
    """Return 1/SNR; no value where the interval of the signal-to-noise ratio reaches zero."""
    low, high = (1 / end if end > 0 else None for end in (ratio.high, ratio.low))
    if ratio.low > 0:
        return NoiseScale(1 / ratio.value, low, high)
    bound = f"; the noise scale is at least {low:.3g}" if low is not None else ""
    return NoiseScale(
        None, low, None, f"no signal: with {count} clusters |G|² is not significantly different from zero{bound}"
    )


def _naive(moments: Mapping[str, Floats]) -> NoiseScale:
    """Return the standard estimator, which treats all steps as independent."""
    pairs, square = float(moments["pairs"]), float(moments["square"])
    if pairs <= 0 or square <= pairs:
        return NoiseScale(None, None, None, "no signal: |G|² is not positive")
    return NoiseScale((square - pairs) / pairs, None, None)
