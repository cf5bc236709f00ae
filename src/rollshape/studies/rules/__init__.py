"""Verdicts on claims, computed from the runs by stated rules. A study file names its rule: `rule: more-envs-is-better`.

A rule is a function in one of these modules, registered under its name with a one-sentence statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rollshape.studies.rules import (  # noqa: F401 (registers the rules)
    adaptive_kl,
    baselines,
    delay,
    invariance,
    learning_rate,
    minibatch,
    monotone,
    rescale,
    reset_phase,
    rrd,
)
from rollshape.studies.rules.base import RULES, ClaimVerdict, Rule, no_finished_runs
from rollshape.studies.rules.comparison import best_and_ties
from rollshape.studies.rules.policy_loss import judge_policy_loss
from rollshape.studies.scope import describe_scope
from rollshape.studies.statistics import summarize

if TYPE_CHECKING:
    from rollshape.studies.groups import Task

__all__ = ["RULES", "ClaimVerdict", "Rule", "judge_claims"]


def judge_claims(rule: str, claim: str, tasks: Sequence[Task]) -> list[ClaimVerdict]:
    """Judge a study's claim by the rule it names, then the side claim on policy_loss where runs are on-policy."""
    judge = RULES[rule].judge if rule else _judge_without_rule
    on_policy = [task for task in tasks if all(group.plan.replay is None for group in task.groups)]
    return [*judge(claim, tasks), *([judge_policy_loss(on_policy)] if on_policy else [])]


def _judge_without_rule(claim: str, tasks: Sequence[Task]) -> list[ClaimVerdict]:
    """Compare the runs of a claim without a rule, and settle nothing."""
    return [_compare_groups(claim if len(tasks) == 1 else f"{claim} ({task.label})".strip(), task) for task in tasks]


def _compare_groups(claim: str, task: Task) -> ClaimVerdict:
    final_returns = task.final_returns()
    if not final_returns:
        return no_finished_runs(claim, [task])
    best, ties = best_and_ties(final_returns)
    others = ", ".join(label for label in ties if label != best) or "none"
    reason = f"{best} has the highest final return, {summarize(final_returns[best])}; statistically tied: {others}."
    return ClaimVerdict(
        claim,
        "not settled",
        [reason, *(["No rule was named, so the claim is not judged."] if claim else [])],
        "No rule was named, so there is no verdict. To get one, add `rule: NAME` to the study file; known rules: "
        f"{', '.join(RULES)}.",
        describe_scope([task]),
    )
