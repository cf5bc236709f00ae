"""The side claim “policy_loss near 0 means converged”, tested in every study with on-policy losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rollshape.studies.rules.base import Answer, ClaimVerdict, Effect
from rollshape.studies.run_verdict import MIN_SCORES
from rollshape.studies.scope import describe_scope
from rollshape.studies.statistics import summarize

if TYPE_CHECKING:
    from rollshape.studies.groups import Task
    from rollshape.studies.records import RunRecord

RARE, COMMON = 0.1, 0.25  # share of the climb below which a loss near 0 is a coincidence, above which it is usual
MIN_CLIMB_ROWS = 3
CLAIM = "A policy_loss near 0 means that training has converged."
SHORT_NAME = "policy_loss near 0 means converged"
RULE = (
    "For every run: among the rows that score less than halfway from its first to its best score, the share whose "
    "|policy_loss| is at most the median of the last fifth. If a loss near 0 meant convergence, this share would be "
    f"close to 0. Confirmed if the 95 % interval of the mean share is below {RARE:.0%}, refuted if it is above "
    f"{COMMON:.0%}, mixed otherwise; the interval is over runs."
)


def judge_policy_loss(tasks: Sequence[Task]) -> ClaimVerdict:
    """Judge whether policy_loss is as near to 0 while a run still has most of its climb ahead."""
    scope = describe_scope(tasks)
    shares = [
        share
        for task in tasks
        for group in task.groups
        for run in group.runs
        if (share := _share_near_zero(task, run)) is not None
    ]
    if len(shares) < 2:
        reason = f"Fewer than two runs have {MIN_CLIMB_ROWS} rows in the first half of their climb."
        return ClaimVerdict(CLAIM, "not settled", [reason], RULE, scope, side_claim=SHORT_NAME)
    mean = summarize(shares)
    low, high = (mean.value if end is None else end for end in (mean.low, mean.high))
    answer: Answer = "confirmed" if high < RARE else "refuted" if low > COMMON else "depends"
    reason = (
        f"In the first half of their climb, policy_loss of {len(shares)} runs was as near to 0 as at the end in "
        f"{mean.value:.0%} [{low:.0%}, {high:.0%}] of the rows."
    )
    numbers = {"share": mean.to_dict(), "runs": len(shares)}
    effect = Effect("runs in the first half of their climb", "share of rows with a policy_loss as near to 0", mean)
    return ClaimVerdict(CLAIM, answer, [reason], RULE, scope, numbers, SHORT_NAME, (effect,))


def _share_near_zero(task: Task, run: RunRecord) -> float | None:
    """Return the share of one run; None if it did not climb or has too few rows on the way."""
    pairs = [(row.metric(task.metric), row.metric("policy_loss")) for row in run.rows]
    known = [(score, abs(loss)) for score, loss in pairs if score is not None and loss is not None]
    if len(known) < MIN_SCORES:
        return None
    scores, losses = np.array(known).T
    noise = float(np.std(np.diff(scores)) / 2**0.5)
    if scores.max() - scores[0] <= 4 * noise:
        return None
    climb = scores < (scores[0] + scores.max()) / 2
    if climb.sum() < MIN_CLIMB_ROWS:
        return None
    final = float(np.median(losses[-max(2, len(known) // 5) :]))
    return float((losses[climb] <= final).mean())
