"""The rule on synchronized resets: do more environments help, and does burn-in help?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollshape.studies.rules.base import Answer, ClaimVerdict, no_finished_runs, task_rule
from rollshape.studies.rules.comparison import Pair, compare_pairs, difference, measure_effect
from rollshape.studies.rules.monotone import AREA, sort_groups
from rollshape.studies.scope import describe_scope
from rollshape.studies.statistics import summarize

if TYPE_CHECKING:
    from rollshape.studies.groups import Task


@task_rule(
    "staggering-fixes-synchronized-resets",
    "With synchronized resets more environments do not help; staggering the resets by burn-in does.",
)
def staggering_fixes_synchronized_resets(claim: str, task: Task) -> ClaimVerdict:
    areas = task.areas()
    if not areas:
        return no_finished_runs(claim, [task])
    synchronized = [group for group in sort_groups(task, "num_envs") if group.spec.stagger == "none"]
    staggered = {group.plan.num_envs: group for group in task.groups if group.spec.stagger == "burn-in"}
    helping = [pair for pair in compare_pairs(areas, [group.label for group in synchronized]) if pair.sign > 0]
    staggering: list[Pair] = []
    for group in synchronized:
        partner = staggered.get(group.plan.num_envs)
        if partner is not None:
            staggering += compare_pairs(areas, [group.label, partner.label])
    better, worse = [pair for pair in staggering if pair.sign > 0], [pair for pair in staggering if pair.sign < 0]
    example = (
        f", for example {helping[0].first} to {helping[0].second}: {difference(areas, helping[0]):+.4g}"
        if helping
        else ""
    )
    gain = (
        f" {better[-1].second}: {summarize(areas[better[-1].second])}; {better[-1].first}: "
        f"{summarize(areas[better[-1].first])}."
        if better
        else ""
    )
    return ClaimVerdict(
        claim,
        _answer(bool(helping), bool(better), bool(worse)),
        [
            f"With synchronized resets, more environments are significantly better in {len(helping)} pairs{example}.",
            f"Burn-in is significantly better at {len(better)} of {len(staggering)} numbers of environments and "
            f"significantly worse at {len(worse)}.{gain}",
        ],
        "By area under the curve: confirmed if more environments are significantly better in no pair of synchronized "
        "groups and burn-in is significantly better somewhere and worse nowhere; refuted if more environments help and "
        "burn-in does not; mixed otherwise.",
        describe_scope([task]),
        effects=(
            *(measure_effect(areas, synchronized[0].label, synchronized[-1].label, AREA) if synchronized else ()),
            *(effect for pair in staggering for effect in measure_effect(areas, pair.first, pair.second, AREA)),
        ),
    )


def _answer(envs_help: bool, burn_in_helps: bool, burn_in_harms: bool) -> Answer:
    if not (envs_help or burn_in_helps or burn_in_harms):
        return "not settled"
    if not envs_help and burn_in_helps and not burn_in_harms:
        return "confirmed"
    return "refuted" if envs_help and not burn_in_helps else "depends"
