"""The rule on batch-size invariance: do learning curves coincide when settings are adjusted to the rollout size?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rollshape.studies.rules.base import Answer, ClaimVerdict, no_finished_runs, task_rule
from rollshape.studies.rules.comparison import compare_pairs, difference, measure_effect
from rollshape.studies.rules.monotone import AREA, sort_groups
from rollshape.studies.scope import describe_scope
from rollshape.studies.statistics import Floats, center

if TYPE_CHECKING:
    from rollshape.studies.groups import Group, Task


@task_rule(
    "adjusted-curves-coincide",
    "Where settings are adjusted to the rollout size (reference_rollout_size), the score does not depend on it.",
)
def adjusted_curves_coincide(claim: str, task: Task) -> ClaimVerdict:
    areas = task.areas()
    by_size = sort_groups(task, "rollout_size")
    adjusted = [group for group in by_size if group.spec.reference_rollout_size is not None and group.label in areas]
    others = [group for group in by_size if group.spec.reference_rollout_size is None and group.label in areas]
    if not adjusted:
        return no_finished_runs(claim, [task])
    differing, other_differing = _separated(areas, adjusted), _separated(areas, others)
    return ClaimVerdict(
        claim,
        _answer(differing, other_differing),
        [
            _describe("Adjusted", areas, adjusted, differing),
            *([_describe("Not adjusted", areas, others, other_differing)] if others else []),
        ],
        "By area under the curve: confirmed if no pair of adjusted groups differs significantly while "
        "some pair of the others does; not settled if neither has such a pair; refuted if the adjusted groups have at "
        "least as many as the others; mixed otherwise. The absence of a significant difference is bounded by the range "
        "that is stated, and is not a proof of equality.",
        describe_scope([task]),
        {"adjusted": len(differing), "others": len(other_differing)},
        effects=tuple(
            effect for groups in (adjusted, others) if groups
            for effect in measure_effect(areas, groups[0].label, groups[-1].label, AREA)
        ),
    )  # fmt: skip


def _separated(areas: Mapping[str, Floats], groups: Sequence[Group]) -> list[tuple[str, str, float]]:
    """Return the significantly different pairs, with their differences."""
    pairs = compare_pairs(areas, [group.label for group in groups])
    return [(pair.first, pair.second, difference(areas, pair)) for pair in pairs if pair.sign]


def _answer(adjusted: Sequence[object], others: Sequence[object]) -> Answer:
    if not adjusted:
        return "confirmed" if others else "not settled"
    return "refuted" if len(adjusted) >= len(others) else "depends"


def _describe(
    name: str, areas: Mapping[str, Floats], groups: Sequence[Group], separated: Sequence[tuple[str, str, float]]
) -> str:
    centers = {group.label: float(center(areas[group.label])) for group in groups}
    low, high = min(centers, key=centers.__getitem__), max(centers, key=centers.__getitem__)
    count = len(groups) * (len(groups) - 1) // 2
    sentence = (
        f"{name}: mean height of the curve from {centers[low]:.4g} ({low}) to {centers[high]:.4g} ({high}); "
        f"{len(separated)} of {count} pairs differ significantly"
    )
    if not separated:
        return sentence + "."
    first, second, gap = max(separated, key=lambda pair: abs(pair[2]))
    return f"{sentence}, most of all {first} and {second} ({gap:+.4g})."
