"""Gradient of a shuffled minibatch compared with its batch: predicted from σ², τ_T and |G|², and measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rollshape.errors import RequestError
from rollshape.gradients.intervals import Estimate, Floats, Z
from rollshape.gradients.variance import Components


@dataclass(frozen=True, slots=True)
class MinibatchPoint:
    """tr Var(G_M) and the cosine of G_M to the batch gradient, for one size; intervals are over shuffles."""

    size: int
    predicted_variance: float
    variance: Estimate
    predicted_cosine: float
    cosine: Estimate


def minibatch_variance(size: int, rollout_size: int, step_variance: float, correlation_time: float) -> float:
    """Return tr Var(G_M) = (σ²/M)·[1 + (M − 1)(τ_T − 1)/(NT − 1)]: two drawn steps covary like any two of the batch."""
    correlated = (size - 1) * (correlation_time - 1) / max(rollout_size - 1, 1)  # a batch of one has no pairs
    return float(step_variance / size * (1 + correlated))


def minibatch_cosine(squared_norm: float, variance: float, rollout_variance: float) -> float:
    """Return E⟨G_M, G_B⟩/√(E|G_M|²·E|G_B|²) = √((|G|² + tr Var G_B)/(|G|² + tr Var G_M)), as E[G_M | batch] = G_B.

    A negative estimate of |G|² counts as 0.
    """
    signal = max(squared_norm, 0.0)
    return float(np.sqrt((signal + rollout_variance) / (signal + variance)))


def shuffled_minibatches(rng: np.random.Generator, rollout_size: int, size: int, count: int) -> NDArray[np.int64]:
    """Return indices [R, M] of R ≤ count disjoint minibatches of one shuffled epoch."""
    if not 1 <= size <= rollout_size:
        raise RequestError(
            "divisibility", f"A minibatch of {size} does not fit into {rollout_size}.", f"Use 1 to {rollout_size}."
        )
    whole = min(count, rollout_size // size)
    return rng.permutation(rollout_size)[: whole * size].reshape(whole, size)


def minibatch_point(
    size: int, rollout_size: int, rows: ArrayLike, mean: ArrayLike, components: Components
) -> MinibatchPoint:
    """Compare gradients of minibatches [R, P] with that of their batch [P] and with the prediction.

    tr Var(G_M) = E|G_M − G_B|² + tr Var(G_B): the shuffles give the first term, the batch the second.
    """
    rows, mean = np.asarray(rows, np.float64), np.asarray(mean, np.float64)
    step, total, norm = float(components.step_variance), float(components.total), float(components.squared_norm)
    predicted = minibatch_variance(size, rollout_size, step, float(components.correlation_time))
    lengths = np.sqrt((rows**2).sum(1) * (mean @ mean))
    cosines = np.divide(rows @ mean, lengths, out=np.zeros(len(rows)), where=lengths > 0)
    return MinibatchPoint(
        size=size,
        predicted_variance=predicted,
        variance=_mean(((rows - mean) ** 2).sum(1) + total),
        predicted_cosine=minibatch_cosine(norm, predicted, total),
        cosine=_mean(cosines),
    )


def _mean(values: Floats) -> Estimate:
    """Return the mean with a normal interval; a single value has an interval of width 0."""
    mean = float(values.mean())
    half = Z * float(values.std(ddof=1)) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return Estimate(mean, mean - half, mean + half)
