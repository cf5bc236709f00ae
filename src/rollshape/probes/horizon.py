"""Over how many updates the true gradient keeps its direction, from the checkpoints that a run has kept.

h = Σ_k cos(G_j, G_{j+k}), G_j the reference gradient at checkpoint j. Environments of different checkpoints are
independent, so their products have no bias; squared norms are taken over pairs of different groups of environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rollshape.gradients.cosine import coherence
from rollshape.gradients.intervals import Estimate, Floats, jackknifed, norm_estimate
from rollshape.gradients.windows import products

GROUPS = 16  # of environments: left out one at a time for the interval


@dataclass(frozen=True, slots=True)
class Horizon:
    """h in updates; None, with a reason, where it cannot be measured. `source`: measured, given, or none."""

    value: float | None
    low: float | None
    high: float | None
    source: str
    checkpoints: tuple[int, ...] = ()
    reason: str | None = None


@dataclass(frozen=True)
class Direction:
    """The reference gradient at a checkpoint, as means of groups of environments [16, P]."""

    update: int
    groups: Floats
    signal: bool


def direction(update: int, rows: Floats) -> Direction:
    """From the reference's rows [N, P]."""
    parts = np.array_split(rows, GROUPS)
    signal = norm_estimate(products(rows)).low > 0
    return Direction(update, np.stack([part.mean(0, dtype=np.float64) for part in parts]), signal)


def given_horizon(updates: float) -> Horizon:
    return Horizon(updates, None, None, "given")


def measured_horizon(directions: Sequence[Direction], kept: Sequence[int]) -> Horizon:
    """h with a jackknife interval over groups of environments; `kept` are the updates of the run's checkpoints."""
    if len(kept) < 2:
        reason = "the run has kept one checkpoint; train with --keep-checkpoints to measure h"
        return Horizon(None, None, None, "none", tuple(kept), reason)
    seen = [each for each in directions if each.signal]
    if len(seen) < 2:
        reason = f"no signal: the reference gradient can be told from zero at {len(seen)} of {len(kept)} checkpoints"
        return Horizon(None, None, None, "none", tuple(kept), reason)
    stacked = np.stack([each.groups for each in seen])  # [J, G, P]
    gram = np.einsum("jgp,khp->jgkh", stacked, stacked, optimize=True)
    at = [each.update for each in seen]
    whole = coherence(_between(gram), at)
    left_out = [coherence(_between(np.delete(np.delete(gram, g, 1), g, 3)), at) for g in range(GROUPS)]
    found: Estimate = jackknifed(whole, np.asarray(left_out)[:, None])[0]
    return Horizon(found.value, max(found.low, 1.0), max(found.high, 1.0), "measured", tuple(at))


def _between(gram: Floats) -> Floats:
    """⟨G_j, G_k⟩ [J, J] of group products [J, G, J, G]; |G_j|² by pairs of different groups."""
    groups = gram.shape[1]
    means = gram.mean((1, 3))
    own = np.einsum("jgjg->j", gram)
    sums = np.einsum("jgjh->j", gram)
    np.fill_diagonal(means, (sums - own) / (groups * (groups - 1)))
    return np.asarray(means)
