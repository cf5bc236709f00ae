"""Variance of the gradient of a batch, and how much of it is due to correlation along time.

With independent environments tr Var(G_B) = (σ²/NT)·τ_T: Term 1, the individual noise σ²/(NT), and Term 2, the
covariance of steps of the same environment, (σ²/NT)(τ_T − 1), τ_T = 1 + 2·Σ_{0<k<T} (1 − k/T)·ρ_k. Two estimators:

* clusters: the mean gradient of an environment's window is one independent row, so tr Var(G_B) = tr Var(row)/N;
* lags: C_k = E⟨g_t, g_{t+k}⟩ − |G|² for all k < T, σ² = C_0 and ρ_k = C_k/C_0.

With all lags they are the same number, because Σ_ts ⟨g_t, g_s⟩ = T²|row|². Everything is centered at the mean over all
environments and steps, and |G|² is the U-statistic over pairs of environments: no term has a plug-in bias.
Where the mean gradient drifts along the window (GAE near its edge, environments that reset together), the drift adds to
σ² and is subtracted in Term 2; the total is exact in any case.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rollshape.gradients.intervals import (
    Bootstrap,
    Estimate,
    Floats,
    estimate_squared_norm,
    jackknife,
    student_quantile,
)

if TYPE_CHECKING:
    from jax import Array

FEW_ENVS = 10.0


class Components(NamedTuple):
    """Point values, scalars."""

    total: Array  # tr Var(G_B)
    individual: Array  # Term 1
    covariance: Array  # Term 2
    squared_norm: Array  # |G|², unbiased: negative where there is no signal
    step_variance: Array  # σ²
    correlation_time: Array  # τ_T
    effective_sample_size: Array  # NT/τ_T
    autocorrelation: Array  # ρ_k, k = 0…T−1


@dataclass(frozen=True, slots=True)
class Variance:
    """The components with their intervals."""

    num_envs: int
    num_steps: int
    total: Estimate
    individual: Estimate
    covariance: Estimate
    squared_norm: Estimate
    step_variance: Estimate
    correlation_time: Estimate
    effective_sample_size: Estimate
    autocorrelation: tuple[Estimate, ...]
    effective_envs: float  # number of measured environments that account for the variance

    @property
    def has_few_effective_envs(self) -> bool:
        """Whether so few environments account for the variance that the intervals are too narrow (docs/results.md)."""
        return self.effective_envs < FEW_ENVS


def empirical_variance(gradients: ArrayLike) -> Estimate:
    """Estimate tr Var(G_B) from the gradients of K batches [K, P], with a t-interval."""
    gradients = np.asarray(gradients, np.float64)
    count = len(gradients)
    squares = ((gradients - gradients.mean(0)) ** 2).sum(1) * count / (count - 1)
    half = float(student_quantile(count - 1) * squares.std(ddof=1) / math.sqrt(count))
    value = float(squares.mean())
    factor = math.exp(half / value) if value else 1.0  # on the logarithmic scale: a variance is not negative
    return Estimate(value, value / factor, value * factor)


def lag_products(blocks: Any) -> Any:
    """Return the mean over t of ⟨g_t, g_{t+k}⟩ for every environment and lag: Gram blocks [N, T, T] → [N, T].

    Takes and returns JAX or NumPy arrays.
    """
    xp = blocks.__array_namespace__()
    envs, steps, _ = blocks.shape
    # Reading with rows one element longer shifts row t by t: diagonals become columns.
    wide = xp.pad(blocks, ((0, 0), (0, 0), (0, steps))).reshape(envs, -1)
    shifted = xp.pad(wide, ((0, 0), (0, steps))).reshape(envs, steps, 2 * steps + 1)
    return shifted[:, :, :steps].sum(1) / (steps - xp.arange(steps))


def components(lags: Array, mean_squared: Array) -> Components:
    """Return all components from lag products [N, T] and |Ḡ|², the squared norm of the mean gradient of the batch.

    Σ_e |row_e|² follows from the lags, and N²|Ḡ|² = Σ_ef ⟨row_e, row_f⟩, so the U-statistic needs no N×N matrix.
    """
    envs, steps = lags.shape
    row_norm = (lags * _window_weights(steps)).sum() / envs
    squared_norm = (envs * mean_squared - row_norm) / (envs - 1)
    by_lag = lags.mean(0) - squared_norm
    step_variance = by_lag[0]
    total, individual = (row_norm - squared_norm) / envs, step_variance / (envs * steps)
    return Components(
        total=total,
        individual=individual,
        covariance=total - individual,
        squared_norm=squared_norm,
        step_variance=step_variance,
        correlation_time=total / individual,
        effective_sample_size=step_variance / total,
        autocorrelation=by_lag / step_variance,
    )


def _window_weights(steps: int) -> Floats:
    """Return the weights in |window mean|² = Σ_k weight_k·(mean over t of ⟨g_t, g_{t+k}⟩), k < T."""
    gaps = np.arange(steps)
    return np.where(gaps == 0, 1.0, 2.0 * (1 - gaps / steps)) / steps


def cluster_variance(row_gram: ArrayLike, rng: np.random.Generator) -> tuple[Estimate, Estimate]:
    """Estimate tr Var(G_B) and |G|² from the Gram matrix of rows alone, [N, N]."""
    bootstrap = Bootstrap({"row": np.diag(row_gram)}, {"norm": row_gram}, rng)
    envs = bootstrap.num_envs
    total = bootstrap.estimate(lambda q: (q["row"] - q["norm"]) / envs, positive=True)
    return total, estimate_squared_norm(row_gram)


def variance(lags: ArrayLike, row_gram: ArrayLike, rng: np.random.Generator, num_envs: int | None = None) -> Variance:
    """Estimate all components from lag products [M, T] and the Gram matrix of rows [M, M].

    They refer to a batch of N environments (default: the M measured ones). If an environment has several windows, its
    lag products and its row are means over them.
    """
    lags, row_gram = np.asarray(lags, np.float64), np.asarray(row_gram, np.float64)
    steps = lags.shape[1]
    envs = num_envs or len(lags)
    bootstrap = Bootstrap({"step": lags[:, 0], "row": lags @ _window_weights(steps)}, {"norm": row_gram}, rng)
    return Variance(
        num_envs=envs,
        num_steps=steps,
        total=bootstrap.estimate(lambda q: (q["row"] - q["norm"]) / envs, positive=True),
        individual=bootstrap.estimate(lambda q: (q["step"] - q["norm"]) / (envs * steps), positive=True),
        covariance=bootstrap.estimate(
            lambda q: ((q["row"] - q["norm"]) * steps - q["step"] + q["norm"]) / envs / steps
        ),
        squared_norm=estimate_squared_norm(row_gram),
        step_variance=bootstrap.estimate(lambda q: q["step"] - q["norm"], positive=True),
        correlation_time=bootstrap.estimate(
            lambda q: steps * (q["row"] - q["norm"]) / (q["step"] - q["norm"]), positive=True
        ),
        effective_sample_size=bootstrap.estimate(
            lambda q: envs * (q["step"] - q["norm"]) / (q["row"] - q["norm"]), positive=True
        ),
        autocorrelation=tuple(autocorrelation(lags, row_gram)),
        effective_envs=effective_envs(row_gram),
    )


def effective_envs(row_gram: Floats) -> float:
    """Return (Σ|row_e|²)²/Σ|row_e|⁴: N if all rows have the same length, 1 if only one row is not zero.

    Where the gradient depends on a rare event, most environments have not met it, and resampling the measured ones
    cannot account for the others.
    """
    norms = np.diag(row_gram)
    total = float((norms**2).sum())
    return float(norms.sum() ** 2 / total) if total else float(len(norms))


def autocorrelation(lags: Floats, row_gram: Floats) -> list[Estimate]:
    """Return ρ_k with jackknife intervals: lag products [N, T], Gram matrix of rows [N, N] → T estimates."""
    envs = len(lags)
    diagonal, sums = np.diag(row_gram), row_gram.sum(1)
    norm = (sums.sum() - diagonal.sum()) / (envs * (envs - 1))
    norms = (sums.sum() - 2 * sums + 2 * diagonal - diagonal.sum()) / ((envs - 1) * (envs - 2))
    mean = lags.mean(0) - norm
    means = (lags.sum(0) - lags) / (envs - 1) - norms[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):  # where only one environment has a gradient
        return jackknife(mean / mean[0], means / means[:, :1])
