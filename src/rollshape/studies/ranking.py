"""The honest test of the gradient lab: the order of shapes that probes predict, against what the learning curves gave.

A probe's surface gives variance and bias² of every T; at N environments the variance is that of the surface's point
with the same T × N₀/N. A shape's predicted error is bias² + variance/h, with h = 1 (one update) or as measured. Every
probe's errors are divided by their median over the shapes, and a shape's prediction is the mean over all probes, so
that no checkpoint counts for more because its gradients are larger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rollshape.studies.groups import Group, Task
from rollshape.studies.statistics import Floats, Ranking, compare_ranking

FEWEST_SHAPES = 2


@dataclass(frozen=True)
class Prediction:
    """Group → predicted error, relative to the median group; lower should learn better. `spread`: over probes."""

    horizon: str
    errors: dict[str, float]
    spread: dict[str, tuple[float, float]]
    probes: int


@dataclass(frozen=True)
class Test:
    """A prediction against one measure of the learning curves."""

    prediction: Prediction
    measure: str
    ranking: Ranking


def documents(task: Task) -> list[dict[str, Any]]:
    """Every probe of the task's runs that could be made."""
    found = [document for group in task.groups for run in group.runs for document in run.probes.values()]
    return [document for document in found if document.get("surface")]


def predictions(task: Task) -> list[Prediction]:
    """By one update's error, and by that over the measured h where a probe has one. None where groups share a shape:
    of what else they differ in (minibatches, say) a surface over N and T knows nothing."""
    if len({(group.plan["num_envs"], group.plan["num_steps"]) for group in task.groups}) < len(task.groups):
        return []
    found = []
    for name in ("h = 1", "measured h"):
        tables = [errors for document in documents(task) if (errors := _errors(document, task, name == "h = 1"))]
        labels = [group.label for group in task.groups if tables and all(group.label in table for table in tables)]
        if len(labels) < FEWEST_SHAPES:
            continue
        relative = np.array([_relative(table, labels) for table in tables])  # [probes, groups]
        low, high = relative.min(axis=0), relative.max(axis=0)
        found.append(
            Prediction(
                name,
                dict(zip(labels, map(float, relative.mean(axis=0)), strict=True)),
                {label: (float(low[i]), float(high[i])) for i, label in enumerate(labels)},
                len(tables),
            )
        )
    return found


def _errors(document: Mapping[str, Any], task: Task, one_update: bool) -> dict[str, float]:
    horizon = 1.0 if one_update else document["horizon"]["value"]
    if horizon is None:
        return {}
    points = {point["num_steps"]: point for point in document["surface"]}
    found = {}
    for group in task.groups:
        point = points.get(group.plan["num_steps"])
        if point is not None:
            found[group.label] = _error(point, group, horizon)
    return found


def _error(point: Mapping[str, Any], group: Group, horizon: float) -> float:
    variance = float(point["variance"]) * float(point["num_envs"]) / float(group.plan["num_envs"])
    return max(float(point["bias2"]), 0.0) + variance / horizon


def _relative(table: Mapping[str, float], labels: list[str]) -> Floats:
    errors = np.array([table[label] for label in labels])
    return np.asarray(errors / np.median(errors))


def tests(task: Task) -> list[Test]:
    """Every prediction against final scores and against areas under the curves."""
    measured = {"final return": task.scores(), "area under the curve": task.areas()}
    return [
        Test(prediction, name, compare_ranking(prediction.errors, scores))
        for prediction in predictions(task)
        for name, scores in measured.items()
        if len(set(prediction.errors) & set(scores)) >= FEWEST_SHAPES
    ]


def same_size(task: Task) -> bool:
    """Whether all shapes collect as much before an update: only then does an error say all that a shape changes."""
    return len({group.plan["rollout_size"] for group in task.groups}) == 1
