"""The rule on delayed rewards: T must exceed the delay before more environments help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rollshape.studies.rules.base import Answer, ClaimVerdict, Effect, rule
from rollshape.studies.rules.comparison import (
    best_and_ties,
    best_label,
    combine_answers,
    has_separated_pair,
    measure_effect,
)
from rollshape.studies.rules.monotone import AREA
from rollshape.studies.scope import describe_scope
from rollshape.studies.statistics import Floats, summarize

if TYPE_CHECKING:
    from rollshape.studies.groups import Task


@rule("steps-must-exceed-delay", "At every reward delay, shapes with num_steps ≤ delay are worse than the best shape.")
def steps_must_exceed_delay(claim: str, tasks: Sequence[Task]) -> list[ClaimVerdict]:
    """Judge every delay, and report the delay at which the best number of environments falls."""
    answers: list[Answer] = []
    reasons: list[str] = []
    effects: list[Effect] = []
    best_envs: dict[int, int] = {}
    for task in sorted(tasks, key=_delay):
        delay, areas = _delay(task), task.areas()
        if not areas:
            continue
        best, ties = best_and_ties(areas)
        groups = {group.label: group for group in task.groups}
        best_envs[delay] = groups[best].plan.num_envs
        short = [label for label in areas if groups[label].plan.num_steps <= delay]
        short_ties = [label for label in short if label in ties]
        reason = f"Delay {delay}: {best} is best, {summarize(areas[best])}"
        if short:
            settled = has_separated_pair(areas)
            answers.append(_answer(settled, bool(short_ties), best in short))
            effects += _compare_short(areas, short, delay)
            reason += f"; tied with T ≤ {delay}: {', '.join(short_ties) or 'none'}"
        reasons.append(f"{reason}.")
    most = max(best_envs.values(), default=0)
    flip = next((delay for delay in sorted(best_envs) if best_envs[delay] < most), None)
    reasons.append(
        "The best number of environments is the same at every delay."
        if flip is None
        else f"The best number of environments falls from {most:,} to {best_envs[flip]:,} at a delay of {flip}."
    )
    verdict = ClaimVerdict(
        claim,
        combine_answers(answers),
        reasons,
        "By area under the curve, at every delay for which some shapes have T ≤ delay: confirmed if all of these are "
        "significantly worse than the best, refuted if the best is one of them, mixed otherwise. Over all delays: the "
        "common answer, else mixed.",
        describe_scope(tasks),
        {"flip": flip, "best_num_envs": best_envs},
        effects=tuple(effects),
    )
    return [verdict]


def _compare_short(areas: dict[str, Floats], short: list[str], delay: int) -> list[Effect]:
    """Return how much lower the best shape with T ≤ delay is than the best of the others."""
    best, other = best_label(areas, short), best_label(areas, [label for label in areas if label not in short])
    if best is None or other is None:
        return []
    return list(measure_effect(areas, other, best, AREA, f"delay {delay}: {best} minus {other}"))


def _answer(settled: bool, short_is_tied: bool, short_is_best: bool) -> Answer:
    if not settled:
        return "not settled"
    if not short_is_tied:
        return "confirmed"
    return "refuted" if short_is_best else "depends"


def _delay(task: Task) -> int:
    return int((task.groups[0].spec.env_kwargs or {}).get("delay", 0))
