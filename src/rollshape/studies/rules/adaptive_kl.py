"""The rule on KL-adaptive learning rates: are they worse than a fixed one where minibatches are small?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollshape.studies.rules.base import ClaimVerdict, no_finished_runs, task_rule
from rollshape.studies.rules.comparison import compare_pairs, measure_effect
from rollshape.studies.rules.monotone import AREA
from rollshape.studies.scope import describe_scope
from rollshape.studies.statistics import summarize

if TYPE_CHECKING:
    from rollshape.studies.groups import Task
    from rollshape.studies.rules.base import Answer, Effect

LARGE = 16_384  # samples, of the claim
SIGNS = {1: "significantly better than", -1: "significantly worse than", 0: "not significantly different from"}


@task_rule(
    "adaptive-kl-needs-large-minibatches",
    f"With minibatches of fewer than {LARGE:,} samples, a KL-adaptive learning rate is worse than a fixed one.",
)
def adaptive_kl_needs_large_minibatches(claim: str, task: Task) -> ClaimVerdict:
    areas = task.areas()
    groups = [group for group in task.groups if group.plan.minibatch_size < LARGE and group.label in areas]
    fixed = {group.plan.minibatch_size: group.label for group in groups if group.spec.adaptive_kl is None}
    adaptive = {group.plan.minibatch_size: group.label for group in groups if group.spec.adaptive_kl is not None}
    sizes = sorted(fixed.keys() & adaptive.keys())
    if not sizes:
        return no_finished_runs(claim, [task])
    pairs = {
        (pair.first, pair.second): pair.sign for pair in compare_pairs(areas, [*fixed.values(), *adaptive.values()])
    }
    signs = {size: pairs[fixed[size], adaptive[size]] for size in sizes}
    effects: list[Effect] = []
    for size in sizes:
        contrast = f"minibatch_size {size:,}: adaptive minus fixed"
        effects += measure_effect(areas, fixed[size], adaptive[size], AREA, contrast)
    return ClaimVerdict(
        claim,
        _answer(list(signs.values())),
        [
            f"minibatch_size {size:,}: adaptive {summarize(areas[adaptive[size]])}, {SIGNS[sign]} fixed "
            f"{summarize(areas[fixed[size]])}."
            for size, sign in signs.items()
        ],
        f"By area under the curve, at minibatch sizes below {LARGE:,}: confirmed if the adaptive rate is significantly "
        "worse than the fixed one at every size, refuted if it is worse at none and better at some, mixed if it is "
        "worse at some, not settled if no difference is significant.",
        describe_scope([task]),
        effects=tuple(effects),
    )


def _answer(signs: list[int]) -> Answer:
    if not any(signs):
        return "not settled"
    if all(sign < 0 for sign in signs):
        return "confirmed"
    return "depends" if -1 in signs else "refuted"
