"""Intervals by a bootstrap over environments, the only independent unit of a batch.

A statistic is a smooth function of two kinds of quantities: means m = Σ_e x_e/N, and squared norms of a mean gradient
by the U-statistic u = Σ_{e≠f} K_ef/(N(N−1)), which has no plug-in bias. Both need a number an environment and an N×N
Gram matrix of rows, so an interval costs nothing in the number of parameters.

The interval is the studentised bootstrap: each resample has a jackknife deviation of its own, in closed form and for
all resamples at once, and the quantiles of (θ* − θ)/σ* are read off, θ in the resampled world being the plug-in value,
where u is the V-statistic Σ_ef K_ef/N². A positive quantity is treated on the logarithmic scale. Few environments often
carry most of a variance, and then this is too narrow; it is widened at each end to the jackknife's θ ± z·σ. A squared
norm near zero has an interval of its own, `norm_estimate`. The methods were chosen by their coverage, which
benchmarks/coverage.py measures.

What no environment has seen no interval can cover: where the gradient lives on rare events, such as a seldom reached
goal, 32 environments are too few.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rollshape.errors import RequestError

Floats = NDArray[np.float64]
Statistic = Callable[[Mapping[str, Floats]], Floats]

LEVEL = 0.95
MIN_ENVS = 32
REPEATS = 1000
Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)


def student(freedom: int) -> float:
    """Student's quantile beside Z, by its expansion in 1/freedom (Abramowitz and Stegun 26.7.5); 1 % off at 4."""
    terms = ((Z**3 + Z) / 4, (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96, (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384)
    return float(Z + sum(term / freedom**i for i, term in enumerate(terms, 1)))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float

    def __contains__(self, truth: float) -> bool:
        return self.low <= truth <= self.high


def squared_norm(gram: ArrayLike) -> float:
    """|G|² by the U-statistic: the mean inner product of different environments' rows, gram [N, N]."""
    gram = np.asarray(gram, np.float64)
    envs = len(gram)
    return float((gram.sum() - np.trace(gram)) / (envs * (envs - 1)))


def norm_estimate(gram: ArrayLike) -> Estimate:
    """|G|² with the interval of all m that u does not contradict, gram [N, N]; its limits are not negative.

    Var(u) = 4·GᵀΣG/N + 2·tr Σ²/(N(N − 1)), so these are the m with (u − m)² ≤ z²·(4s²m/N + 2·tr Σ²/(N(N − 1))), where
    s² = GᵀΣG/|G|² is the rows' variance along the mean. It holds where G is zero, which no bootstrap does.
    """
    gram = np.asarray(gram, np.float64)
    _at_least(len(gram))
    envs, norm = len(gram), squared_norm(gram)
    along, plug_in = gram.mean(1), gram.mean()
    others = (envs * along - np.diag(gram)) / (envs - 1)  # ⟨w_e, mean of the other rows⟩
    centred = gram - along[:, None] - along + plug_in
    products = (centred**2).sum() - (np.diag(centred) ** 2).sum()
    slope = 2 * Z**2 * (others.var(ddof=1) / plug_in if plug_in > 0 else 0.0) / envs
    constant = 2 * Z**2 * products / (envs * (envs - 1)) ** 2
    root = np.sqrt(max(slope**2 + 2 * slope * norm + constant, 0.0))
    return Estimate(norm, *(max(float(norm + slope + side * root), 0.0) for side in (-1, 1)))


class Resampled:
    """Quantities of N environments as they are, with each one left out, and resampled.

    `means` maps names to x [N], `norms` names to row Gram matrices K [N, N]. A statistic takes all of them by name, as
    arrays of any one shape, and works element by element.
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
        _at_least(envs)
        counts = rng.multinomial(envs, np.full(envs, 1 / envs), size=repeats).astype(np.float64)
        self._counts = counts
        self._point = {n: v.mean() for n, v in x.items()} | {n: squared_norm(v) for n, v in k.items()}
        self._plug_in = {n: v.mean() for n, v in (x | k).items()}
        self._left_out = _resample(x, k, np.ones((1, envs)))[1]
        self._resamples, self._resamples_left_out = _resample(x, k, counts)

    def value(self, statistic: Statistic) -> float:
        """The statistic of the environments as they are."""
        return float(statistic(cast(Mapping[str, Floats], self._point)))

    def estimate(self, statistic: Statistic, *, positive: bool = False, wider: bool = True) -> Estimate:
        """Value and interval; a `positive` statistic on the logarithmic scale.

        A statistic that vanishes with a norm is better not made `wider`: there the jackknife overstates the deviation.
        """

        def scaled(quantities: Mapping[str, Floats]) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):  # a resample may hold nothing but zeros
                values = np.asarray(statistic(quantities))
            return cast(Floats, np.log(np.maximum(values, np.finfo(float).tiny))) if positive else values

        centre = float(scaled(cast(Mapping[str, Floats], self._point)))
        deviation = _jackknife(scaled(self._left_out), np.ones((1, self.num_envs)))[0]
        own = _jackknife(scaled(self._resamples_left_out), self._counts)
        shift = scaled(self._resamples) - float(scaled(cast(Mapping[str, Floats], self._plug_in)))
        usable = (own > 0) & np.isfinite(shift)  # a resample of one environment alone has no deviation
        upper, lower = Z, -Z
        if usable.any():
            upper, lower = np.quantile(shift[usable] / own[usable], [0.5 + LEVEL / 2, 0.5 - LEVEL / 2])
        if wider:
            upper, lower = max(upper, Z), min(lower, -Z)
        ends = (centre - upper * deviation, centre - lower * deviation, centre)
        with np.errstate(over="ignore"):  # what almost no environment has seen has no upper end
            low, high, value = (float(np.exp(v) if positive else v) for v in ends)
        return Estimate(value, low, high)


def jackknifed(value: ArrayLike, left_out: ArrayLike) -> list[Estimate]:
    """A curve [L] with normal intervals from its values with each environment left out, [N, L]."""
    value, left_out = np.atleast_1d(np.asarray(value, np.float64)), np.asarray(left_out, np.float64)
    deviation = _jackknife(left_out.T, np.ones((1, left_out.shape[0])))
    return [Estimate(float(v), float(v - Z * d), float(v + Z * d)) for v, d in zip(value, deviation, strict=True)]


def _at_least(envs: int) -> None:
    if envs < MIN_ENVS:
        raise RequestError(
            "independent-environments",
            f"An interval needs at least {MIN_ENVS} independent environments; got {envs}.",
            f"Measure with {MIN_ENVS} environments or more.",
        )


def _resample(
    means: Mapping[str, Floats], norms: Mapping[str, Floats], counts: Floats
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Every quantity of resamples in which environment e was drawn counts [B, N] times: as [B], and with one draw of
    e left out as [B, N]. The U-statistic takes pairs of different draws; an environment may meet itself."""
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
    """Deviation from values with one draw left out, [B, N] with weights counts [B, N] → [B]."""
    draws = counts.sum(1)
    mean = (left_out * counts).sum(1) / draws
    squares = ((left_out - mean[:, None]) ** 2 * counts).sum(1)
    return cast(Floats, np.sqrt(squares * (draws - 1) / draws))
