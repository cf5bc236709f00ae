"""Agreement of gradient directions: between batches, with a reference, between steps, and along training."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from rollshape.gradients.intervals import Estimate, Floats, jackknife


def cosines(products: ArrayLike, left_squared: ArrayLike, right_squared: ArrayLike) -> Floats:
    """Return ⟨x, y⟩/(|x||y|) for products [S, R] and squared norms [S] and [R]; 0 where a norm is zero."""
    products = np.asarray(products, np.float64)
    lengths = np.sqrt(np.maximum(np.outer(np.asarray(left_squared), np.asarray(right_squared)), 0))
    return cast(Floats, np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0))


def pairwise_cosine(gram: ArrayLike) -> Estimate:
    """Estimate the mean cosine of K ≥ 3 independent batch gradients from their Gram matrix [K, K], by jackknife."""
    gram = np.asarray(gram, np.float64)
    count = len(gram)
    cosine = cosines(gram, np.diag(gram), np.diag(gram))
    np.fill_diagonal(cosine, 0)
    total, sums = cosine.sum(), cosine.sum(1)
    left_out = (total - 2 * sums) / ((count - 1) * (count - 2))
    return jackknife(total / (count * (count - 1)), left_out[:, None])[0]


def reference_cosine(products: ArrayLike, squared: ArrayLike, reference_squared: float) -> Estimate:
    """Estimate the mean cosine of K batch gradients to a reference from ⟨G_k, R⟩ [K], |G_k|² [K] and |R|²."""
    values = cosines(np.asarray(products)[:, None], squared, [reference_squared])[:, 0]
    left_out = (values.sum() - values) / (len(values) - 1)
    return jackknife(values.mean(), left_out[:, None])[0]


def predicted_cosines(squared_norm: float, variance: float) -> tuple[float, float]:
    """Return (p, √p), cosines of two batches, p ≈ |G|²/(|G|² + tr Var), and of a batch and the true gradient.

    Approximate, for many dimensions; from |G|² and tr Var(G_B) of one batch. A negative estimate of |G|² counts as 0.
    """
    signal = max(squared_norm, 0.0)
    p = signal / (signal + variance)
    return p, float(np.sqrt(p))


def coherence(gram: ArrayLike, updates: ArrayLike) -> float:
    """Return over how many updates a direction lasts: h = Σ_k cos(G_j, G_{j+k}), k = 0, 1, … while it is positive.

    `gram` [J, J] holds inner products of reference gradients at checkpoints after `updates` [J]; its diagonal must be
    the unbiased |G|², so that noise does not look like a turn. Checkpoints without signal (diagonal ≤ 0) are left out;
    cosines are averaged over pairs of equal distance and interpolated between distances.
    """
    gram, updates = np.asarray(gram, np.float64), np.asarray(updates, np.int64)
    has_signal = np.diag(gram) > 0
    gram, updates = gram[np.ix_(has_signal, has_signal)], updates[has_signal]
    if len(gram) == 0:
        return 1.0
    first, second = np.triu_indices(len(gram))
    values = np.clip(cosines(gram, np.diag(gram), np.diag(gram))[first, second], -1.0, 1.0)
    gaps, group = np.unique(np.abs(updates[second] - updates[first]), return_inverse=True)
    means = np.bincount(group, values) / np.bincount(group)
    curve = np.interp(np.arange(gaps[-1] + 1), gaps, means)
    ends = np.flatnonzero(curve <= 0)
    return float(curve[: ends[0] if len(ends) else len(curve)].sum())
