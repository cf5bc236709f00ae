"""The rule on REINFORCE: do rewards-to-go and baselines help more than simply collecting more?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rollshape.formatting import format_number
from rollshape.studies.rules.base import ClaimVerdict, no_finished_runs, task_rule
from rollshape.studies.rules.comparison import best_and_ties, combine_answers, compare_pairs, measure_effect
from rollshape.studies.rules.monotone import AREA, sort_groups
from rollshape.studies.scope import describe_scope
from rollshape.studies.statistics import summarize

if TYPE_CHECKING:
    from rollshape.studies.groups import Group, Task
    from rollshape.studies.rules.base import Answer


@task_rule(
    "baselines-beat-larger-rollouts",
    "REINFORCE with rewards-to-go and a baseline at the smallest rollout learns better than plain REINFORCE at any.",
)
def baselines_beat_larger_rollouts(claim: str, task: Task) -> ClaimVerdict:
    areas = task.areas()
    groups = [group for group in sort_groups(task, "rollout_size") if group.label in areas]
    plain = [group for group in groups if _variant(group) == ("episode", "none")]
    if not plain:
        return no_finished_runs(claim, [task])
    smallest = groups[0].plan.rollout_size
    reduced = [
        group
        for group in groups
        if group.plan.rollout_size == smallest and group.spec.returns == "to-go" and group.spec.baseline != "none"
    ]
    signs = [[compare_pairs(areas, [other.label, group.label])[0].sign for other in plain] for group in reduced]
    best, ties = best_and_ties(areas)
    tied = ", ".join(label for label in ties if label != best) or "none"
    return ClaimVerdict(
        claim,
        combine_answers([_answer(group_signs) for group_signs in signs]),
        [
            *(f"Plain REINFORCE (whole-episode returns, no baseline): {group.label}, {summarize(areas[group.label])}."
              for group in plain),
            *(f"{group.label}: {summarize(areas[group.label])}, {_compare(group_signs, plain)}."
              for group, group_signs in zip(reduced, signs, strict=True)),
            f"Best of all: {best}, {summarize(areas[best])}; statistically tied: {tied}.",
            *_describe_noise(groups),
        ],
        "By area under the curve: confirmed if rewards-to-go with each baseline at the smallest rollout are "
        "significantly better than plain REINFORCE at the smallest and at the largest rollout; refuted if worse than "
        "at the largest; not settled where that comparison is not significant; mixed otherwise, for example where "
        "more updates alone explain the gain.",
        describe_scope([task]),
        effects=tuple(
            effect for group in reduced for other in plain
            for effect in measure_effect(areas, other.label, group.label, AREA)
        ),
    )  # fmt: skip


def _answer(signs: list[int]) -> Answer:
    """From comparisons with plain REINFORCE at rising rollout sizes."""
    if signs[-1] <= 0:
        return "refuted" if signs[-1] < 0 else "not settled"
    return "confirmed" if signs[0] > 0 else "depends"


def _compare(signs: list[int], plain: list[Group]) -> str:
    words = {1: "significantly better than", -1: "significantly worse than", 0: "not significantly different from"}
    return " and ".join(f"{words[sign]} plain {group.runs[0].shape}" for sign, group in zip(signs, plain, strict=True))


def _variant(group: Group) -> tuple[str, str]:
    return group.spec.returns, group.spec.baseline


def _describe_noise(groups: list[Group]) -> list[str]:
    """Gradient variance at the smallest rollout, relative to the plainest estimator, by the groups' own probes."""
    smallest = groups[0].plan.rollout_size
    noise = {}
    for group in groups:
        variances = [probe.variance.total.value for run in group.runs for probe in run.measured_probes()]
        values = [value for value in variances if np.isfinite(value)]
        if group.plan.rollout_size == smallest and values:
            noise[_variant(group)] = float(np.median(values))
    plain = noise.get(("episode", "none"))
    if not plain:
        return []
    parts = [
        f"{returns}, baseline {baseline}: {format_number(value / plain)}"
        for (returns, baseline), value in noise.items()
        if (returns, baseline) != ("episode", "none")
    ]
    return [f"Gradient variance relative to whole-episode returns without a baseline (= 1): {'; '.join(parts)}."]
