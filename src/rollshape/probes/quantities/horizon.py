"""Over how many updates the true gradient keeps its direction, from the stored checkpoints of a run.

h = Σ_k cos(G_j, G_{j+k}), G_j the reference gradient at checkpoint j. Environments of different checkpoints are
independent, so their products have no bias; squared norms are taken over pairs of different groups of environments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rollshape.gradients.cosine import coherence
from rollshape.gradients.intervals import Estimate, Floats, estimate_squared_norm, jackknife
from rollshape.gradients.windows import products
from rollshape.probes.quantities.quantity import Quantity

if TYPE_CHECKING:
    from rollshape.probes.context import ProbeContext
    from rollshape.probes.result import Probe

GROUPS = 16  # of environments, left out one at a time for the interval


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


def new_direction(update: int, rows: Floats) -> Direction:
    """Return the direction from the rows of the reference, [N, P]."""
    parts = np.array_split(rows, GROUPS)
    signal = estimate_squared_norm(products(rows)).low > 0
    return Direction(update, np.stack([part.mean(0, dtype=np.float64) for part in parts]), signal)


def given_horizon(updates: float) -> Horizon:
    return Horizon(updates, None, None, "given")


def measure_horizon(directions: Sequence[Direction], checkpoints: Sequence[int]) -> Horizon:
    """Return h with a jackknife interval over groups of environments; `checkpoints` are their updates."""
    if len(checkpoints) < 2:
        reason = "the run has stored only one checkpoint; train with --keep-checkpoints to measure it"
        return Horizon(None, None, None, "none", tuple(checkpoints), reason)
    usable = [direction for direction in directions if direction.signal]
    if len(usable) < 2:
        reason = (
            "no signal: the reference gradient is significantly different from zero at "
            f"{len(usable)} of {len(checkpoints)} checkpoints"
        )
        return Horizon(None, None, None, "none", tuple(checkpoints), reason)
    groups = np.stack([direction.groups for direction in usable])  # [J, G, P]
    gram = np.einsum("jgp,khp->jgkh", groups, groups, optimize=True)
    updates = [direction.update for direction in usable]
    value = coherence(_between(gram), updates)
    left_out = [coherence(_between(np.delete(np.delete(gram, g, 1), g, 3)), updates) for g in range(GROUPS)]
    estimate: Estimate = jackknife(value, np.asarray(left_out)[:, None])[0]
    return Horizon(estimate.value, max(estimate.low, 1.0), max(estimate.high, 1.0), "measured", tuple(updates))


def _between(gram: Floats) -> Floats:
    """Return ⟨G_j, G_k⟩ [J, J] from products of groups [J, G, J, G]; |G_j|² from pairs of different groups."""
    groups = gram.shape[1]
    means = gram.mean((1, 3))
    diagonal = np.einsum("jgjg->j", gram)
    sums = np.einsum("jgjh->j", gram)
    np.fill_diagonal(means, (sums - diagonal) / (groups * (groups - 1)))
    return np.asarray(means)


def measure(context: ProbeContext) -> Horizon:
    return context.horizon


def to_dict(probe: Probe) -> dict[str, Any]:
    return {"horizon": asdict(probe.horizon)}


def from_dict(document: Mapping[str, Any]) -> Horizon:
    entry = document["horizon"]
    return Horizon(**{**entry, "checkpoints": tuple(entry["checkpoints"])})


HORIZON = Quantity["ProbeContext", "Probe"](name="horizon", measure=measure, to_dict=to_dict, from_dict=from_dict)
