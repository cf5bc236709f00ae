"""Rules on minibatch sizes: are the recommended sizes as good as the best?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollshape.studies.rules.base import ClaimVerdict, no_finished_runs, task_rule
from rollshape.studies.rules.comparison import best_and_ties, best_label, judge_recommended, measure_effect
from rollshape.studies.rules.monotone import AREA
from rollshape.studies.scope import describe_scope
from rollshape.studies.statistics import summarize

if TYPE_CHECKING:
    from rollshape.studies.groups import Group, Task
    from rollshape.studies.rules.base import Effect
    from rollshape.studies.statistics import Floats

SMALLEST, LARGEST, QUARTER = 32, 256, 4


@task_rule(
    "minibatch-32-to-256-is-best",
    "Minibatches of 32 to 256 samples, and a quarter of the rollout, are as good as the best minibatch.",
)
def minibatch_32_to_256_is_best(claim: str, task: Task) -> ClaimVerdict:
    areas = task.areas()
    if not areas:
        return no_finished_runs(claim, [task])
    best, ties = best_and_ties(areas)
    recommended = [group.label for group in task.groups if _is_recommended(group) and group.label in areas]
    others = [label for label in areas if label not in recommended]
    good = [label for label in recommended if label in ties]
    worse = [label for label in others if label not in ties]
    return ClaimVerdict(
        claim,
        judge_recommended(areas, recommended),
        [
            f"By area under the curve {best} is best, {summarize(areas[best])}.",
            f"Statistically tied with it: {', '.join(label for label in ties if label != best) or 'none'}.",
            f"{len(good)} of {len(recommended)} recommended sizes are the best or tied with it; {len(worse)} of "
            f"{len(others)} other sizes are significantly worse.",
        ],
        f"Confirmed if every minibatch of {SMALLEST} to {LARGEST} samples and a quarter of the rollout is the best or "
        "statistically tied with it by area under the curve, refuted if none is, mixed otherwise.",
        describe_scope([task]),
        effects=_best_of(areas, others, recommended),
    )


@task_rule(
    "quarter-minibatch-is-best",
    "A minibatch of a quarter of the rollout, at the best of its learning rates, is as good as the best minibatch.",
)
def quarter_minibatch_is_best(claim: str, task: Task) -> ClaimVerdict:
    areas = task.areas()
    by_count: dict[int, list[str]] = {}
    for group in task.groups:
        by_count.setdefault(group.plan.num_minibatches, []).append(group.label)
    best_rates = {count: label for count, labels in by_count.items() if (label := best_label(areas, labels))}
    quarter = best_rates.get(QUARTER)
    if quarter is None:
        return no_finished_runs(claim, [task])
    tuned = {label: areas[label] for label in best_rates.values()}
    best, ties = best_and_ties(tuned)
    return ClaimVerdict(
        claim,
        judge_recommended(tuned, [quarter]),
        [
            f"By area under the curve {best} is best, {summarize(tuned[best])}.",
            f"Statistically tied with it: {', '.join(label for label in ties if label != best) or 'none'}.",
            f"A quarter of the rollout: {quarter}, {summarize(tuned[quarter])}.",
        ],
        "By area under the curve, of each minibatch size the group with the best learning rate: confirmed if a quarter "
        "of the rollout is the best or statistically tied with it, refuted if it is not.",
        describe_scope([task]),
        effects=_best_of(tuned, [label for label in tuned if label != quarter], [quarter]),
    )


def _best_of(areas: dict[str, Floats], others: list[str], recommended: list[str]) -> tuple[Effect, ...]:
    """Return how much better the best recommended group is than the best of the others."""
    first, second = best_label(areas, others), best_label(areas, recommended)
    return measure_effect(areas, first, second, AREA) if first and second else ()


def _is_recommended(group: Group) -> bool:
    return SMALLEST <= group.plan.minibatch_size <= LARGEST or group.plan.num_minibatches == QUARTER
