"""Records from the learning curves of the benchmark of `advise`: 16 shapes on each task, all other settings the same.

Final returns and areas under the curves are both tested, and at a fixed rollout size every size by itself, as a study
would do it; contradicting answers are mixed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from evidence.records import VERDICTS, make_effect
from rollshape.geometry.rules.budget import FEW_UPDATES
from rollshape.geometry.rules.evidence import ClaimResult
from rollshape.geometry.rules.window import CONTINUOUS_HIGH, CONTINUOUS_LOW
from rollshape.studies.curves import Curve, area_under
from rollshape.studies.rules.base import Answer, Effect
from rollshape.studies.rules.comparison import (
    best_and_ties,
    best_label,
    check_trend,
    combine_answers,
    has_separated_pair,
    judge_recommended,
    measure_effect,
)
from rollshape.studies.rules.monotone import AREA, FINAL_RETURN
from rollshape.studies.scope import describe_settings
from rollshape.studies.statistics import Floats

DATA = Path(__file__).parents[1] / "data" / "advise"
DATE = "2026-11-18"  # of the commit that added the curves
SHORT_WINDOW = 25  # steps, of the claim
CONTINUOUS = ("Pendulum-v1", "MountainCarContinuous-v0", "envpool:Reacher-v5", "envpool:Pusher-v5")
Scores = dict[str, Floats]
Judgement = tuple[Answer, list[Effect]]


@dataclass(frozen=True)
class Shape:
    label: str
    num_envs: int
    num_steps: int
    rollout_size: int
    num_updates: int


@dataclass(frozen=True)
class Benchmark:
    """The shapes of a task and their scores by measure."""

    document: dict[str, Any]
    shapes: tuple[Shape, ...]
    scores: dict[str, Scores]

    @property
    def label(self) -> str:
        options = self.document["settings"].get("env_kwargs", {})
        return " ".join([self.document["env"], *(f"{name}={value}" for name, value in options.items())])

    def by_rollout(self) -> list[list[Shape]]:
        """Return the shapes of each rollout size that has several, by num_envs."""
        ordered = sorted(self.shapes, key=lambda shape: (shape.rollout_size, shape.num_envs))
        groups = [list(shapes) for _, shapes in groupby(ordered, key=lambda shape: shape.rollout_size)]
        return [shapes for shapes in groups if len(shapes) > 1]


def read(file: Path) -> Benchmark:
    document = json.loads(file.read_text(encoding="utf-8"))
    shapes, finals, areas = [], {}, {}
    x = document["evaluate_every"] * np.arange(1, document["total_timesteps"] // document["evaluate_every"] + 1.0)
    for row in document["shapes"]:
        if set(row["status"]) != {"done"}:
            raise SystemExit(f"{file}: a run has not finished")
        envs, steps = row["num_envs"], row["num_steps"]
        label = f"{envs}×{steps}"
        shapes.append(Shape(label, envs, steps, envs * steps, row["num_updates"]))
        finals[label] = np.array(row["final_return"])
        areas[label] = np.array([area_under(Curve(x, np.array(curve))) for curve in row["eval_return"]])
    return Benchmark(document, tuple(shapes), {FINAL_RETURN: finals, AREA: areas})


def more_envs(task: Benchmark) -> Judgement:
    """Judge that at each rollout size the score rises with num_envs."""
    answers, effects = [], []
    most = max(map(len, task.by_rollout()))
    for shapes in task.by_rollout():
        labels = [shape.label for shape in shapes]
        answers += [check_trend(_select(scores, labels), labels)[0] for scores in task.scores.values()]
        if len(labels) == most:
            effects += measure_effect(task.scores[AREA], labels[0], labels[-1], AREA)
    return combine_answers(answers), effects


def few_updates(task: Benchmark) -> Judgement:
    """Judge that all shapes with few updates are worse than the best."""
    few = [shape.label for shape in task.shapes if shape.num_updates < FEW_UPDATES]
    answers = [_judge_worse(scores, few) for scores in task.scores.values()]
    return combine_answers(answers), _best_minus_best(task, few)


def longer_than(steps: int) -> Callable[[Benchmark], Judgement]:
    """Return a rule: at each rollout size, shapes with fewer than so many steps are worse than the best."""

    def judge(task: Benchmark) -> Judgement:
        answers: list[Answer] = []
        effects: list[Effect] = []
        for shapes in task.by_rollout():
            labels = [shape.label for shape in shapes]
            short = [shape.label for shape in shapes if shape.num_steps < steps]
            if short and len(short) < len(labels):
                answers += [_judge_worse(_select(scores, labels), short) for scores in task.scores.values()]
                effects = _best_minus_best(task, short, labels)
        return combine_answers(answers), effects  # of the largest rollout that has both

    return judge


def continuous_samples(task: Benchmark) -> Judgement:
    """Judge that all shapes in the recommended range are the best or tied with it."""
    usual = [shape.label for shape in task.shapes if CONTINUOUS_LOW <= shape.rollout_size <= CONTINUOUS_HIGH]
    answers = [judge_recommended(scores, usual) for scores in task.scores.values()]
    return combine_answers(answers), _best_minus_best(task, usual)


def _judge_worse(scores: Scores, labels: Sequence[str]) -> Answer:
    """Judge that all of the labels are significantly worse than the best: `refuted` if the best is one of them."""
    if not has_separated_pair(scores):
        return "not settled"
    best, ties = best_and_ties(scores)
    if best in labels:
        return "refuted"
    return "depends" if any(label in ties for label in labels) else "confirmed"


def _best_minus_best(task: Benchmark, labels: Sequence[str], among: Sequence[str] = ()) -> list[Effect]:
    """Return, by each measure, the best of the labels minus the best of the others."""
    effects: list[Effect] = []
    for measure, scores in task.scores.items():
        others = [label for label in among or scores if label not in labels]
        first, second = best_label(scores, others), best_label(scores, labels)
        if first and second:
            effects += measure_effect(scores, first, second, measure)
    return effects


def _select(scores: Scores, labels: Sequence[str]) -> Scores:
    return {label: scores[label] for label in labels}


def records_of_benchmark() -> list[ClaimResult]:
    """Return the records of all tasks that have data."""
    records = []
    for file in sorted(DATA.glob("*.json")):
        task = read(file)
        document = task.document
        rules = {"more-envs": more_envs, "few-updates": few_updates, "25-steps": longer_than(SHORT_WINDOW)}
        if document["env"] in CONTINUOUS:
            rules["continuous-samples"] = continuous_samples
        if "delay" in document["settings"].get("env_kwargs", {}):
            rules["steps-exceed-delay"] = longer_than(document["settings"]["env_kwargs"]["delay"] + 1)
        rates = [row["learning_rate"] for row in document["shapes"]]
        seeds = [len(row["status"]) for row in document["shapes"]]
        scope = f"{task.label} ({describe_settings([document['total_timesteps']], rates, seeds)})"
        for claim, rule in rules.items():
            answer, effects = rule(task)
            effects_made = tuple(map(make_effect, effects))
            command = f"{document['command']} && python benchmarks/claims.py"
            origin = f"benchmarks/data/advise/{file.name}, commit {document['commit'][:7]}"
            records.append(
                ClaimResult(claim, task.label, VERDICTS[answer], effects_made, min(seeds), scope, command, DATE, origin)
            )
    return records
