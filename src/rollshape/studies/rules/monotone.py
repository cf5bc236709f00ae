"""Rules of the kind “more of X is better”: scores must rise or fall with a field in every separated pair of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rollshape.studies.rules.base import ClaimVerdict, task_rule
from rollshape.studies.rules.comparison import best_and_ties, check_trend, combine_answers, measure_effect
from rollshape.studies.run_verdict import classify_run
from rollshape.studies.scope import describe_scope
from rollshape.studies.statistics import Floats, summarize

if TYPE_CHECKING:
    from rollshape.studies.groups import Group, Task

FINAL_RETURN, AREA = "final return", "area under the curve"
FAILED = ("never learned", "collapsed", "diverged")


def judge_monotone(
    claim: str, task: Task, field: str, direction: int, measures: Sequence[str] = (FINAL_RETURN, AREA)
) -> ClaimVerdict:
    """Judge that scores rise (direction 1) or fall (−1) with a field.

    Every measure gives an answer. One that settles nothing leaves the verdict to the other; contradicting ones depend.
    """
    labels = [group.label for group in sort_groups(task, field)]
    final_returns = task.final_returns()
    scores = {FINAL_RETURN: final_returns, AREA: task.areas()}
    trends = {measure: check_trend(scores[measure], labels, direction) for measure in measures}
    verb = "rises" if direction > 0 else "falls"
    return ClaimVerdict(
        claim,
        combine_answers([answer for answer, _ in trends.values()]),
        [
            *_describe_extremes(final_returns, labels, field),
            *(f"By {measure}: {reason}." for measure, (_, reason) in trends.items()),
        ],
        f"Confirmed if the score {verb} with {field} in every significantly different pair of groups, refuted if it "
        f"does so in none of them, mixed if in some; by {' and by '.join(measures)}. The significance level is 5 % in "
        "each direction, corrected for the number of pairs.",
        describe_scope([task]),
        {measure: answer for measure, (answer, _) in trends.items()},
        effects=tuple(
            effect for measure in measures if labels
            for effect in measure_effect(scores[measure], labels[0], labels[-1], measure)
        ),
    )  # fmt: skip


def sort_groups(task: Task, field: str) -> list[Group]:
    """Return the groups in which a field is a number, sorted by it."""
    groups = [group for group in task.groups if isinstance(group.field(field), (int, float))]
    return sorted(groups, key=lambda group: group.field(field))


def _describe_extremes(final_returns: dict[str, Floats], labels: Sequence[str], field: str) -> list[str]:
    """Describe the group with the highest final return, and those with the lowest and highest value of a field."""
    if not final_returns or not labels:
        return []
    best, ties = best_and_ties(final_returns)
    others = [label for label in ties if label != best]
    tied = f"statistically tied with {', '.join(others)}" if others else "significantly above all others"
    sentences = [f"{best} has the highest final return, {summarize(final_returns[best])}, {tied}."]
    first, last = labels[0], labels[-1]
    if first in final_returns and last in final_returns and first != last:
        sentences.append(
            f"{first} (lowest {field}): {summarize(final_returns[first])}; {last} (highest {field}): "
            f"{summarize(final_returns[last])}."
        )
    return sentences


@task_rule("more-envs-is-better", "The score rises with num_envs.")
def more_envs_is_better(claim: str, task: Task) -> ClaimVerdict:
    return judge_monotone(claim, task, "num_envs", 1)


@task_rule("fewer-steps-is-better", "The score falls with num_steps.")
def fewer_steps_is_better(claim: str, task: Task) -> ClaimVerdict:
    return judge_monotone(claim, task, "num_steps", -1)


@task_rule("fewer-epochs-is-better", "The score falls with num_epochs.")
def fewer_epochs_is_better(claim: str, task: Task) -> ClaimVerdict:
    verdict = judge_monotone(claim, task, "num_epochs", -1)
    labels = [group.label for group in sort_groups(task, "num_epochs")]
    # From one epoch to many says little about many; the middle of the range is nearer to what people use.
    further = measure_effect(task.areas(), labels[len(labels) // 2], labels[-1], AREA)
    return replace(verdict, effects=(*verdict.effects, *further))


@task_rule("more-timesteps-is-better", "The final return rises with total_timesteps.")
def more_timesteps_is_better(claim: str, task: Task) -> ClaimVerdict:
    # Areas reach to the smallest budget only, and up to there a larger budget changes nothing.
    return judge_monotone(claim, task, "total_timesteps", 1, (FINAL_RETURN,))


@task_rule(
    "more-envs-is-worse-and-fails",
    "The score falls with num_envs, and most runs with the most environments fail.",
)
def more_envs_is_worse_and_fails(claim: str, task: Task) -> ClaimVerdict:
    verdict = judge_monotone(claim, task, "num_envs", -1)
    largest = sort_groups(task, "num_envs")[-1]
    best = max((float(np.median(runs)) for runs in task.final_returns().values()), default=None)
    failed = sum(classify_run(run.rows, run.status, None, best).name in FAILED for run in largest.runs)
    has_failed = failed > len(largest.runs) / 2
    return replace(
        verdict,
        answer=verdict.answer if has_failed or verdict.answer != "confirmed" else "depends",
        reasons=[
            *verdict.reasons,
            f"{failed} of {len(largest.runs)} runs of {largest.label} never learned, collapsed or diverged.",
        ],
        rule=f"{verdict.rule} To be confirmed, more than half of the runs with the most environments must also fail.",
        numbers=verdict.numbers | {"failed": failed},
    )
