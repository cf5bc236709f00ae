"""What a rule is: a function from a claim and its tasks to verdicts, registered by the name a study file uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rollshape.studies.scope import describe_scope

if TYPE_CHECKING:
    from rollshape.studies.groups import Task
    from rollshape.studies.statistics import Summary

Answer = Literal["confirmed", "refuted", "depends", "not settled"]
_HEADLINES = {"confirmed": "Confirmed", "refuted": "Refuted", "depends": "Mixed results", "not settled": "Not settled"}


@dataclass(frozen=True)
class Effect:
    """A number that a claim is about, with its 95 % interval, such as the difference between two groups."""

    contrast: str  # `1024×2 minus 2×1024`
    measure: str  # `final return`
    size: Summary

    def to_dict(self) -> dict[str, Any]:
        return {"contrast": self.contrast, "measure": self.measure, **self.size.to_dict()}

    def __str__(self) -> str:
        """Return `1024×2 minus 2×1024, final return: -261 [-320, -200]`."""
        return f"{self.contrast}, {self.measure}: {self.size}"


@dataclass(frozen=True)
class ClaimVerdict:
    """What was claimed, the answer with its reasons and scope, and the rule that gave it.

    `side_claim` is a short name where the claim is not the study's own.
    """

    claim: str
    answer: Answer
    reasons: list[str]
    rule: str  # in words
    scope: str
    numbers: dict[str, Any] = field(default_factory=dict)
    side_claim: str = ""
    effects: tuple[Effect, ...] = ()  # chosen by the rule, not by their size

    @property
    def headline(self) -> str:
        """`Refuted on CartPole-v1 (164k steps, lr 3e-4, 10 seeds)`."""
        return f"{_HEADLINES[self.answer]} on {self.scope}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "claim": self.claim,
            "answer": self.answer,
            "scope": self.scope,
            "headline": self.headline,
            "reasons": self.reasons,
            "rule": self.rule,
            "numbers": self.numbers,
            "aside": self.side_claim,
            "effects": [effect.to_dict() for effect in self.effects],
        }


Judge = Callable[[str, "Sequence[Task]"], list[ClaimVerdict]]


@dataclass(frozen=True)
class Rule:
    """A rule of the registry: `statement` says in one sentence what it tests."""

    name: str
    statement: str
    judge: Judge


RULES: dict[str, Rule] = {}


def rule(name: str, statement: str) -> Callable[[Judge], Judge]:
    """Register a rule that sees all tasks of a study."""

    def register(judge: Judge) -> Judge:
        RULES[name] = Rule(name, statement, judge)
        return judge

    return register


def task_rule(
    name: str, statement: str
) -> Callable[[Callable[[str, Task], ClaimVerdict]], Callable[[str, Task], ClaimVerdict]]:
    """Register a rule that judges every task by itself: scores of different tasks cannot be compared."""

    def register(judge: Callable[[str, Task], ClaimVerdict]) -> Callable[[str, Task], ClaimVerdict]:
        def judge_tasks(claim: str, tasks: Sequence[Task]) -> list[ClaimVerdict]:
            return [judge(claim if len(tasks) == 1 else f"{claim} ({task.label})".strip(), task) for task in tasks]

        RULES[name] = Rule(name, statement, judge_tasks)
        return judge

    return register


def no_finished_runs(claim: str, tasks: Sequence[Task]) -> ClaimVerdict:
    """Return the verdict of a study in which no run has finished."""
    return ClaimVerdict(
        claim, "not settled", ["No run has finished yet."], "Finished runs are compared.", describe_scope(tasks)
    )
