"""The rule on minibatch sizes: are the recommended sizes as good as the best?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollshape.studies.rules.base import Answer, ClaimVerdict, no_finished_runs, task_rule
from rollshape.studies.rules.comparison import best_and_ties, has_separated_pair
from rollshape.studies.scope import describe_scope
from rollshape.studies.statistics import summarize

if TYPE_CHECKING:
    from rollshape.studies.groups import Group, Task

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
    answer: Answer
    if not has_separated_pair(areas):
        answer = "not settled"
    elif len(good) == len(recommended):
        answer = "confirmed"
    else:
        answer = "depends" if good else "refuted"
    worse = [label for label in others if label not in ties]
    return ClaimVerdict(
        claim,
        answer,
        [
            f"By area under the curve {best} is best, {summarize(areas[best])}.",
            f"Statistically tied with it: {', '.join(label for label in ties if label != best) or 'none'}.",
            f"{len(good)} of {len(recommended)} recommended sizes are the best or tied with it; {len(worse)} of "
            f"{len(others)} other sizes are significantly worse.",
        ],
        f"Confirmed if every minibatch of {SMALLEST} to {LARGEST} samples and a quarter of the rollout is the best or "
        "statistically tied with it by area under the curve, refuted if none is, mixed otherwise.",
        describe_scope([task]),
    )


def _is_recommended(group: Group) -> bool:
    return SMALLEST <= group.plan.minibatch_size <= LARGEST or group.plan.num_minibatches == QUARTER
