"""The check of exploration: an entropy, or a standard deviation of actions, that collapses before the run has learned.

What other checks measure of the policy's steps, they measure while it explores: once the standard deviation is tiny,
any step is a large KL divergence, and once a softmax is saturated, even a huge step is a small one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rollshape.studies.records import RunRecord
from rollshape.studies.remedies import Remedy
from rollshape.studies.suspects.base import Missing, Suspect, check, evidence

NOTABLE_ENTROPY, NOTABLE_STD = 0.25, 0.2  # shares of the initial ones that are left before the middle of the run
NOTABLE_DROP = 1.6  # nats: a fifth of the initial standard deviation, for one action dimension
SEVERE = 0.02
MAX_COLLAPSE = 1.5  # evidence
MIN_EXPLORING_ROWS = 5


@dataclass(frozen=True)
class Exploration:
    """Share of the initial exploration that is left in each row that has it, and below which share that is notable."""

    rows: list[int]
    shares: list[float]
    what: str
    notable: float
    threshold: dict[str, float]

    def median(self, rows: slice, num_rows: int) -> float | None:
        """Return the median share over rows of the run, None if none of them has it."""
        chosen = set(range(num_rows)[rows])
        values = [share for row, share in zip(self.rows, self.shares, strict=True) if row in chosen]
        return float(np.median(values)) if values else None


def measure_exploration(run: RunRecord) -> Exploration | None:
    """Return the standard deviation of the actions relative to the first, else the entropy; None without either."""
    for name in ("action_std", "entropy"):
        known = [(row, value) for row, record in enumerate(run.rows) if (value := record.metric(name)) is not None]
        if known:
            break
    else:
        return None
    rows, values = [row for row, _ in known], [value for _, value in known]
    first = values[0]
    if name == "action_std":
        shares = [value / max(first, 1e-12) for value in values]
        return Exploration(rows, shares, "standard deviation of the actions", NOTABLE_STD, {name: NOTABLE_STD})
    if min(values) < 0:  # of a continuous distribution
        shares, limit = [math.exp(min(value - first, 50.0)) for value in values], math.exp(-NOTABLE_DROP)
        return Exploration(rows, shares, "spread of the actions", limit, {"entropy_drop": NOTABLE_DROP})
    shares = [value / max(first, 1e-12) for value in values]
    return Exploration(rows, shares, "entropy of the policy", NOTABLE_ENTROPY, {name: NOTABLE_ENTROPY})


def exploring_rows(run: RunRecord) -> slice:
    """Return the rows before exploration collapsed for good, at least the first five; all rows if it did not."""
    exploration = measure_exploration(run)
    if exploration is None:
        return slice(None)
    exploring = [
        row for row, share in zip(exploration.rows, exploration.shares, strict=True) if share >= exploration.notable
    ]
    last = max(exploring, default=-1)
    return slice(None) if last == exploration.rows[-1] else slice(0, max(MIN_EXPLORING_ROWS, last + 1))


@check(
    "entropy-collapse",
    "premature convergence: Mnih et al. 2016 (entropy bonus)",
    follows={"learning-rate": 1.0, "policy-lag": 0.5, "reward-scale": 0.5},
)
def entropy_collapse(run: RunRecord, _: Sequence[RunRecord]) -> Suspect | Missing | None:
    """Compare the entropy between 20 % and 50 % of the run, or the standard deviation of actions, with the first."""
    num_rows = len(run.rows)
    exploration = measure_exploration(run)
    middle = slice(num_rows // 5, max(num_rows // 2, num_rows // 5 + 1))
    left = None if exploration is None else exploration.median(middle, num_rows)
    if exploration is None or left is None:
        return Missing(("entropy",))
    known = run.knows("entropy_coef") and run.spec.entropy_coef is not None
    coefficient = run.spec.entropy_coef if known else None
    is_usable = coefficient is not None and coefficient > 0
    return Suspect(
        min(MAX_COLLAPSE, evidence(left, exploration.notable, SEVERE)),
        f"Before the middle of the run, {left:.0%} of the initial {exploration.what} is left (notable below "
        f"{exploration.notable:.0%}): too little exploration.",
        Remedy({"entropy_coef": 5 * coefficient if is_usable and coefficient is not None else 0.01}),
        {"left": left, "entropy_coef": coefficient, "threshold": exploration.threshold},
    )
