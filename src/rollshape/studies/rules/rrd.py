"""The rule on RRD's batch sizes: one verdict for each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rollshape.studies.rules.base import ClaimVerdict, rule
from rollshape.studies.rules.comparison import check_trend, measure_effect
from rollshape.studies.rules.monotone import judge_monotone, sort_groups
from rollshape.studies.statistics import Floats

if TYPE_CHECKING:
    from rollshape.studies.groups import Group, Task

CLAIMS = {
    "train_batches": "More train_batches are slower, but better.",
    "rrd_batch_size": "A larger rrd_batch_size, which gives more diverse subsequences, is better.",
    "rrd_sample_size": "A larger rrd_sample_size makes returns easier to predict.",
}


@rule("larger-rrd-sizes-are-better", "Larger train_batches, rrd_batch_size and rrd_sample_size are better, one by one.")
def larger_rrd_sizes_are_better(claim: str, tasks: Sequence[Task]) -> list[ClaimVerdict]:  # noqa: ARG001
    """Judge each size along the points whose other two sizes have their most common value."""
    return [_judge_size(task, size) for task in tasks for size in CLAIMS]


def _judge_size(task: Task, size: str) -> ClaimVerdict:
    line = _points_along(task, size)
    verdict = judge_monotone(CLAIMS[size], line, size, 1)
    groups = sort_groups(line, size)
    if size == "rrd_sample_size":  # the claim is about the reward network, not about the return
        verdict = _judge_reward_loss(verdict, groups)
    return replace(verdict, reasons=[*verdict.reasons, _describe_reward_network(groups, size)])


def _points_along(task: Task, size: str) -> Task:
    """Return the task with only those points that differ from the usual one in `size`."""
    usual = {name: Counter(group.field(name) for group in task.groups).most_common(1)[0][0] for name in CLAIMS}
    others = [name for name in CLAIMS if name != size]
    points = [group for group in task.groups if all(group.field(name) == usual[name] for name in others)]
    return replace(task, groups=tuple(replace(group, label=f"{size} {group.field(size)}") for group in points))


def _judge_reward_loss(verdict: ClaimVerdict, groups: Sequence[Group]) -> ClaimVerdict:
    losses = {group.label: loss for group in groups if len(loss := _late_medians(group, "reward_loss"))}
    labels = [group.label for group in groups]
    answer, reason = check_trend(losses, labels, -1)
    return replace(
        verdict,
        answer=answer,
        reasons=[f"By the reward network's loss: {reason}.", *verdict.reasons],
        rule="Confirmed if the loss over the last fifth of the run (median) falls with rrd_sample_size in every "
        "significantly different pair of points, refuted if in none of them, mixed if in some.",
        numbers=verdict.numbers | {"reward_loss": answer},
        effects=(*measure_effect(losses, labels[0], labels[-1], "loss of the reward network"), *verdict.effects),
    )


def _describe_reward_network(groups: Sequence[Group], size: str) -> str:
    parts = []
    for group in groups:
        correlations = _late_medians(group, "reward_correlation")
        speeds = [run.sps for run in group.runs if run.sps]
        if len(correlations):
            speed = f", {np.mean(speeds):,.0f} steps/s" if speeds else ""
            parts.append(f"{group.field(size)}: correlation {np.mean(correlations):.2f}{speed}")
    return f"Correlation with the true rewards, and speed: {'; '.join(parts)}."


def _late_medians(group: Group, metric: str) -> Floats:
    """Return each run's median of a metric over its last fifth."""
    values = [run.late_median(metric) for run in group.runs if run.rows]
    return np.array([value for value in values if value is not None], np.float64)
