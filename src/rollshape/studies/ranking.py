"""Compare the order of shapes that probes predict with the order that the learning curves show.

A probe's surface gives variance and bias² of every T; at N environments the variance is that of the surface's point
with the same T × N₀/N. A shape's predicted error is bias² + variance/h, with h = 1 (one update) or as measured. Each
probe's errors are divided by their median over the shapes, and a shape's prediction is the mean over all probes, so
that no checkpoint counts for more because its gradients are larger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rollshape.gradients.surface import Point
from rollshape.probes.result import Probe
from rollshape.studies.groups import Group, Task
from rollshape.studies.rules.monotone import AREA, FINAL_RETURN
from rollshape.studies.statistics import Floats, RankingComparison, compare_ranking

MIN_SHAPES = 2
ONE_UPDATE, MEASURED_HORIZON = "h = 1", "measured h"


@dataclass(frozen=True)
class Prediction:
    """Group → predicted error relative to the median group (lower should learn better), and its range over probes."""

    horizon: str
    errors: dict[str, float]
    ranges: dict[str, tuple[float, float]]
    probes: int


@dataclass(frozen=True)
class PredictionCheck:
    """A prediction compared with one measure of the learning curves."""

    prediction: Prediction
    measure: str
    ranking: RankingComparison


def measured_probes(task: Task) -> list[Probe]:
    """Return every probe of the task's runs that measured a gradient."""
    return [probe for group in task.groups for run in group.runs for probe in run.measured_probes()]


def predict_errors(task: Task) -> list[Prediction]:
    """Predict errors of one update and, where a probe has measured h, over h updates.

    There is no prediction where groups share a shape: a surface over N and T says nothing about what else they differ
    in, such as minibatches.
    """
    if len({(group.plan.num_envs, group.plan.num_steps) for group in task.groups}) < len(task.groups):
        return []
    predictions = []
    for horizon in (ONE_UPDATE, MEASURED_HORIZON):
        tables = [
            errors for probe in measured_probes(task) if (errors := _group_errors(probe, task, horizon == ONE_UPDATE))
        ]
        labels = [group.label for group in task.groups if tables and all(group.label in table for table in tables)]
        if len(labels) < MIN_SHAPES:
            continue
        relative = np.array([_relative_errors(table, labels) for table in tables])  # [probes, groups]
        low, high = relative.min(axis=0), relative.max(axis=0)
        predictions.append(
            Prediction(
                horizon,
                dict(zip(labels, map(float, relative.mean(axis=0)), strict=True)),
                {label: (float(low[i]), float(high[i])) for i, label in enumerate(labels)},
                len(tables),
            )
        )
    return predictions


def _group_errors(probe: Probe, task: Task, one_update: bool) -> dict[str, float]:
    horizon = 1.0 if one_update else probe.horizon.value
    if horizon is None:
        return {}
    points = {point.num_steps: point for point in probe.surface}
    return {
        group.label: _error(points[group.plan.num_steps], group, horizon)
        for group in task.groups
        if group.plan.num_steps in points
    }


def _error(point: Point, group: Group, horizon: float) -> float:
    variance, bias2 = (float(np.nan_to_num(estimate.value)) for estimate in (point.variance, point.bias2))
    return max(bias2, 0.0) + variance * point.num_envs / group.plan.num_envs / horizon


def _relative_errors(table: Mapping[str, float], labels: list[str]) -> Floats:
    errors = np.array([table[label] for label in labels])
    return np.asarray(errors / np.median(errors))


def check_predictions(task: Task) -> list[PredictionCheck]:
    """Compare every prediction with final returns and with areas under the curves."""
    measures = {FINAL_RETURN: task.final_returns(), AREA: task.areas()}
    return [
        PredictionCheck(prediction, measure, compare_ranking(prediction.errors, scores))
        for prediction in predict_errors(task)
        for measure, scores in measures.items()
        if len(set(prediction.errors) & set(scores)) >= MIN_SHAPES
    ]


def has_equal_rollouts(task: Task) -> bool:
    """Return whether all shapes collect as many samples per update, the only case an error fully describes."""
    return len({group.plan.rollout_size for group in task.groups}) == 1
