"""Confidence intervals by a bootstrap over environments, the independent units of a batch.

A statistic is a smooth function of two kinds of quantities: means m = Σ_e x_e/N, and squared norms of a mean gradient
by the U-statistic u = Σ_{e≠f} K_ef/(N(N−1)), which has no plug-in bias. Both need one number per environment and the
N×N Gram matrix of rows, so the cost of an interval does not depend on the number of parameters.

The interval is the studentized bootstrap: every resample has its own jackknife standard error, in closed form for all
resamples at once, and the interval follows from the quantiles of (θ* − θ)/σ*. For the resamples θ is the plug-in value,
in which u is the V-statistic Σ_ef K_ef/N². A positive quantity is transformed to the logarithmic scale. Often a few
environments account for most of a variance, and the interval is then too narrow; it is widened at each end to the
jackknife's θ ± z·σ. For a squared norm near zero use `estimate_squared_norm`. The methods were chosen by their
coverage, which benchmarks/coverage.py measures.

No interval covers events that no environment has met: where the gradient depends on rare events, such as a
seldom-reached goal, 32 environments are too few.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from rollshape.errors import RequestError

Floats = NDArray[np.float64]
Statistic = Callable[[Mapping[str, Floats]], Floats]

LEVEL = 0.95
MIN_ENVS = 32
REPEATS = 1000
Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)


def student_quantile(freedom: int) -> float:
    """Return the quantile of Student's t that corresponds to Z."""
    return float(stdtrit(freedom, 0.5 + LEVEL / 2))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float

    def __contains__(self, truth: float) -> bool:
        return self.low <= truth <= self.high


def squared_norm(gram: ArrayLike) -> float:
    """Return |G|² by the U-statistic: the mean inner product of rows of different environments, gram [N, N]."""
    gram = np.asarray(gram, np.float64)
    envs = len(gram)
    return float((gram.sum() - np.trace(gram)) / (envs * (envs - 1)))


def estimate_squared_norm(gram: ArrayLike) -> Estimate:
    """Estimate |G|² from gram [N, N], with a score interval: all m ≥ 0 that are compatible with u.

    Var(u) = 4·GᵀΣG/N + 2·tr Σ²/(N(N − 1)), so these are the m with (u − m)² ≤ z²·(4s²m/N + 2·tr Σ²/(N(N − 1))), where
    s² = GᵀΣG/|G|² is the variance of the rows along the mean. Unlike a bootstrap, it is valid where G is zero.
    """
    gram = np.asarray(gram, np.float64)
    _require_envs(len(gram))
    envs, norm = len(gram), squared_norm(gram)
    along, plug_in = gram.mean(1), gram.mean()
    others = (envs * along - np.diag(gram)) / (envs - 1)  # ⟨w_e, mean of the other rows⟩
    centered = gram - along[:, None] - along + plug_in
    products = (centered**2).sum() - (np.diag(centered) ** 2).sum()
    slope = 2 * Z**2 * (others.var(ddof=1) / plug_in if plug_in > 0 else 0.0) / envs
    constant = 2 * Z**2 * products / (envs * (envs - 1)) ** 2
    root = np.sqrt(max(slope**2 + 2 * slope * norm + constant, 0.0))
    return Estimate(norm, *(max(float(norm + slope + side * root), 0.0) for side in (-1, 1)))


class Bootstrap:
    """Quantities of N environments: of all of them, with one left out, and of resamples.

    `means` maps names to x [N], `norms` names to row Gram matrices K [N, N]. A statistic takes all quantities by name,
    as arrays of one shape, and computes elementwise.
    """

    def __init__(
        self,
        means: Mapping[str, ArrayLike],
        norms: Mapping[str, ArrayLike],
        rng: np.random.Generator,
        repeats: int = REPEATS,
    ) -> None:
        x = {name: np.asarray(values, np.float64) for name, values in means.items()}
        k = {name: np.asarray(values, np.float64) for name, values in norms.items()}
        self.num_envs = envs = len(next(iter((x | k).values())))
        _require_envs(envs)
        counts = rng.multinomial(envs, np.full(envs, 1 / envs), size=repeats).astype(np.float64)
        self._counts = counts
        self._point = {n: v.mean() for n, v in x.items()} | {n: squared_norm(v) for n, v in k.items()}
        self._plug_in = {n: v.mean() for n, v in (x | k).items()}
        self._left_out = _resample(x, k, np.ones((1, envs)))[1]
        self._resamples, self._resamples_left_out = _resample(x, k, counts)

    def value(self, statistic: Statistic) -> float:
        """Return the statistic of all environments."""
        return float(statistic(cast(Mapping[str, Floats], self._point)))

    def estimate(self, statistic: Statistic, *, positive: bool = False, wider: bool = True) -> Estimate:
        """Return value and interval of a statistic; a `positive` one is transformed to the logarithmic scale.

        `wider` widens the interval to the jackknife's. Turn it off for a statistic that vanishes with a norm: there the
        jackknife overstates the standard error.
        """

        def transform(quantities: Mapping[str, Floats]) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):  # a resample may contain only zeros
                values = np.asarray(statistic(quantities))
            return cast(Floats, np.log(np.maximum(values, np.finfo(float).tiny))) if positive else values

        center = float(transform(cast(Mapping[str, Floats], self._point)))
        deviation = _jackknife(transform(self._left_out), np.ones((1, self.num_envs)))[0]
        deviations = _jackknife(transform(self._resamples_left_out), self._counts)
        shift = transform(self._resamples) - float(transform(cast(Mapping[str, Floats], self._plug_in)))
        usable = (deviations > 0) & np.isfinite(shift)  # a resample of a single environment has none
        upper, lower = Z, -Z
        if usable.any():
            upper, lower = np.quantile(shift[usable] / deviations[usable], [0.5 + LEVEL / 2, 0.5 - LEVEL / 2])
        if wider:
            upper, lower = max(upper, Z), min(lower, -Z)
        ends = (center - upper * deviation, center - lower * deviation, center)
        with np.errstate(over="ignore"):  # an event that almost no environment has met has no upper end
            low, high, value = (float(np.exp(v) if positive else v) for v in ends)
        return Estimate(value, low, high)


def jackknife(value: ArrayLike, left_out: ArrayLike) -> list[Estimate]:
    """Return a curve [L] with normal intervals, from its values with one environment left out, [N, L]."""
    value, left_out = np.atleast_1d(np.asarray(value, np.float64)), np.asarray(left_out, np.float64)
    deviation = _jackknife(left_out.T, np.ones((1, left_out.shape[0])))
    return [Estimate(float(v), float(v - Z * d), float(v + Z * d)) for v, d in zip(value, deviation, strict=True)]


def _require_envs(envs: int) -> None:
    if envs < MIN_ENVS:
        raise RequestError(
            "independent-environments",
            f"An interval needs at least {MIN_ENVS} independent environments; got {envs}.",
            f"Measure with {MIN_ENVS} environments or more.",
        )


def _resample(
    means: Mapping[str, Floats], norms: Mapping[str, Floats], counts: Floats
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return all quantities of resamples that contain environment e counts [B, N] times: [B], and [B, N] with one draw
    of e left out. The U-statistic takes pairs of different draws, which may be of the same environment."""
    draws = counts.sum(1)
    fewer = draws[:, None] - 1
    whole, left = {}, {}
    for name, x in means.items():
        total = counts @ x
        whole[name], left[name] = total / draws, (total[:, None] - x) / fewer
    for name, gram in norms.items():
        diagonal, along = np.diag(gram), counts @ gram  # ⟨Σ_f c_f w_f, w_e⟩
        pairs = (along * counts).sum(1) - counts @ diagonal
        whole[name] = pairs / (draws * (draws - 1))
        left[name] = (pairs[:, None] - 2 * (along - diagonal)) / (fewer * (fewer - 1))
    return whole, left


def _jackknife(left_out: Floats, counts: Floats) -> Floats:
    """Return the standard error from values with one draw left out, [B, N] with weights counts [B, N] → [B]."""
    draws = counts.sum(1)
    mean = (left_out * counts).sum(1) / draws
    squares = ((left_out - mean[:, None]) ** 2 * counts).sum(1)
    return cast(Floats, np.sqrt(squares * (draws - 1) / draws))
