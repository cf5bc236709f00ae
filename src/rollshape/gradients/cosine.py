"""Directions: how well gradients agree, between batches, with a reference, step by step, and along training."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from rollshape.gradients.intervals import Estimate, Floats, jackknifed


def cosines(products: ArrayLike, left_squared: ArrayLike, right_squared: ArrayLike) -> Floats:
    """⟨x, y⟩/(|x||y|) for products [S, R] and squared norms [S] and [R]; 0 where one of them is zero."""
    products = np.asarray(products, np.float64)
    lengths = np.sqrt(np.maximum(np.outer(np.asarray(left_squared), np.asarray(right_squared)), 0))
    return cast(Floats, np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0))


def pairwise_cosine(gram: ArrayLike) -> Estimate:
    """Mean cosine of K ≥ 3 independent batch gradients, Gram matrix [K, K]; interval by leaving out a batch."""
    gram = np.asarray(gram, np.float64)
    count = len(gram)
    cosine = cosines(gram, np.diag(gram), np.diag(gram))
    np.fill_diagonal(cosine, 0)
    total, own = cosine.sum(), cosine.sum(1)
    left_out = (total - 2 * own) / ((count - 1) * (count - 2))
    return jackknifed(total / (count * (count - 1)), left_out[:, None])[0]


def reference_cosine(products: ArrayLike, squared: ArrayLike, reference_squared: float) -> Estimate:
    """Mean cosine of K batch gradients to a reference: products ⟨G_k, R⟩ [K], |G_k|² [K] and |R|²."""
    values = cosines(np.asarray(products)[:, None], squared, [reference_squared])[:, 0]
    left_out = (values.sum() - values) / (len(values) - 1)
    return jackknifed(values.mean(), left_out[:, None])[0]


def predicted_cosines(squared_norm: float, variance: float) -> tuple[float, float]:
    """(p, √p): expected cosine of two batches, p ≈ |G|²/(|G|² + tr Var), and of a batch to the true gradient.

    From |G|² and tr Var(G_B) of one batch, in many dimensions. A |G|² estimated as negative counts as none.
    """
    signal = max(squared_norm, 0.0)
    p = signal / (signal + variance)
    return p, float(np.sqrt(p))


def coherence(gram: ArrayLike, updates: ArrayLike) -> float:
    """h = Σ_k cos(G_j, G_{j+k}) over updates k = 0, 1, … up to the first non-positive term: how long a direction lasts.

    `gram` [J, J] holds inner products of reference gradients at checkpoints made after `updates` [J]; its diagonal must
    be the unbiased |G|², lest noise looks like a turn. Checkpoints without signal (diagonal ≤ 0) are left out; cosines
    are averaged over pairs of equal distance and interpolated between distances.
    """
    gram, updates = np.asarray(gram, np.float64), np.asarray(updates, np.int64)
    seen = np.diag(gram) > 0
    gram, updates = gram[np.ix_(seen, seen)], updates[seen]
    if len(gram) == 0:
        return 1.0
    first, second = np.triu_indices(len(gram))
    values = np.clip(cosines(gram, np.diag(gram), np.diag(gram))[first, second], -1.0, 1.0)
    gaps, group = np.unique(np.abs(updates[second] - updates[first]), return_inverse=True)
    means = np.bincount(group, values) / np.bincount(group)
    curve = np.interp(np.arange(gaps[-1] + 1), gaps, means)
    gone = np.flatnonzero(curve <= 0)
    return float(curve[: gone[0] if len(gone) else len(curve)].sum())
