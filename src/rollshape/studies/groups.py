"""Runs grouped for reports and verdicts: a task's scores can be compared, runs of a group differ in the seed only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rollshape.geometry.plan import Plan
from rollshape.studies.curves import Alignment, Curve, area_under, learning_curve
from rollshape.studies.gymnasium_registry import reward_threshold
from rollshape.studies.records import RunRecord
from rollshape.studies.run_verdict import MIN_SCORES
from rollshape.studies.statistics import Floats, center
from rollshape.studies.trials import format_value
from rollshape.training.spec import Spec

SHAPE_FIELDS = ("num_envs", "num_steps", "rollout_size")
LABELS = ("trainer", "algo")  # settings whose values need no name beside them
FINAL_SHARE = 0.1  # of a run's timesteps: the end of its curve
THRESHOLD_SHARE = 0.8  # of the rise from the start to the best end, where no threshold is registered


@dataclass(frozen=True)
class Group:
    """Runs that differ in the seed only."""

    label: str
    runs: tuple[RunRecord, ...]

    @property
    def spec(self) -> Spec:
        return self.runs[0].spec

    @property
    def plan(self) -> Plan:
        return self.runs[0].plan

    def field(self, name: str) -> Any:
        """Return a size as it was planned, or any other field of the spec as it was given."""
        for holder in (self.plan, self.plan.replay, self.spec):
            if hasattr(holder, name):
                return getattr(holder, name)
        return None


@dataclass(frozen=True)
class Threshold:
    """A return to reach, and where it comes from."""

    value: float
    source: str


@dataclass(frozen=True)
class Task:
    """The groups of one environment: the only ones whose scores can be compared."""

    label: str
    groups: tuple[Group, ...]
    metric: str  # eval_return, or episodic_return where runs were not evaluated during training

    @property
    def env(self) -> str:
        return self.groups[0].spec.env

    @cached_property
    def lowest_score(self) -> float:
        """The lowest score of any run, which is what a diverged run counts as."""
        scores = [value for group in self.groups for run in group.runs for value in run.values(self.metric)]
        return float(min(scores)) if scores else 0.0

    @cached_property
    def is_scored_by_curves(self) -> bool:
        """Whether final returns are those of the curves: a log of another library seldom has a score after training."""
        runs = [run for group in self.groups for run in group.runs if run.status == "done" and run.rows]
        return any(run.final_return is None and not run.trainer.is_ours for run in runs)

    @property
    def final_meaning(self) -> str:
        """What a final return of this task is, for captions."""
        if self.is_scored_by_curves:
            return f"mean of {self.metric} over the last {FINAL_SHARE:.0%} of the timesteps, the same for every library"
        return "mean over fresh episodes after the last update"

    def final_returns(self) -> dict[str, Floats]:
        """Return group → final returns of its finished runs; groups without one are left out."""
        returns = {}
        for group in self.groups:
            values = [value for run in group.runs if (value := self._final_return(run)) is not None]
            if values:
                returns[group.label] = np.array(values, np.float64)
        return returns

    def _final_return(self, run: RunRecord) -> float | None:
        if run.status == "diverged":
            return self.lowest_score
        if run.status != "done":
            return None
        return end_of_curve(run, self.metric) if self.is_scored_by_curves else run.final_return

    def curves(self, group: Group, by: Alignment) -> list[Curve]:
        """Return the learning curves of a group's runs that have one."""
        steps = group.plan.gradient_steps_per_update
        return [learning_curve(run.rows, by, steps, self.metric) for run in group.runs if run.values(self.metric)]

    def areas(self) -> dict[str, Floats]:
        """Return group → area under each finished run's curve, up to the smallest budget of the task.

        A diverged run continues at the lowest score.
        """
        until = min(float(group.plan.actual_timesteps or 0) for group in self.groups)
        areas = {}
        for group in self.groups:
            values = [area for run in group.runs if (area := self._area(run, until)) is not None]
            if values:
                areas[group.label] = np.array(values, np.float64)
        return areas

    def _area(self, run: RunRecord, until: float) -> float | None:
        line = learning_curve(run.rows, "timesteps", 1, self.metric)
        if run.status not in ("done", "diverged") or not len(line.x):
            return None
        if run.status == "diverged" and line.x[-1] < until:
            line = Curve(np.append(line.x, (line.x[-1] + 1, until)), np.append(line.y, [self.lowest_score] * 2))
        return area_under(line, until)

    def threshold(self) -> Threshold | None:
        """Return the registered threshold if some run reaches it, else 80 % of the rise; None without scores."""
        lines = [line for group in self.groups for line in self.curves(group, "timesteps")]
        if not lines:
            return None
        registered = reward_threshold(self.env)
        if registered is not None and max(float(line.y.max()) for line in lines) >= registered:
            return Threshold(registered, "the registered reward threshold")
        start = float(np.median([line.y[0] for line in lines]))
        best = max((float(center(runs)) for runs in self.final_returns().values()), default=start)
        source = (
            f"{THRESHOLD_SHARE:.0%} of the way from the first score ({start:.4g}) to the best group's final return "
            f"({best:.4g})"
        )
        return Threshold(start + THRESHOLD_SHARE * (best - start), source)


def end_of_curve(run: RunRecord, metric: str) -> float | None:
    """Return the mean of a metric over the last tenth of a run's timesteps; None if it is nowhere in the run."""
    known = [(row.timesteps, value) for row in run.rows if (value := row.metric(metric)) is not None]
    if not known:
        return None
    last = [value for timesteps, value in known if timesteps > (1 - FINAL_SHARE) * run.rows[-1].timesteps]
    return float(np.mean(last)) if last else known[-1][1]


def group_tasks(records: Sequence[RunRecord]) -> list[Task]:
    """Group runs by environment and by settings, sorted by shape and then by whatever else differs."""
    by_task: dict[tuple[str, str], dict[Any, list[RunRecord]]] = {}
    for record in records:
        by_task.setdefault(record.task_key, {}).setdefault(record.group_key, []).append(record)
    tasks = [_make_task(list(groups.values())) for groups in by_task.values()]
    return sorted(tasks, key=lambda task: _sort_key(task.groups[0].spec.env_kwargs) + _sort_key(task.label))


def _make_task(groups: list[list[RunRecord]]) -> Task:
    varied = _varied_fields([runs[0] for runs in groups])
    groups = sorted(groups, key=lambda runs: _group_order(runs[0], varied))
    labels = _group_labels([runs[0] for runs in groups], varied)
    return Task(
        _task_label(groups[0][0]),
        tuple(
            Group(label, tuple(sorted(runs, key=lambda run: run.spec.seed)))
            for label, runs in zip(labels, groups, strict=True)
        ),
        _score_metric(run for runs in groups for run in runs),
    )


def _score_metric(runs: Iterable[RunRecord]) -> str:
    evaluated = all(len(run.values("eval_return")) >= MIN_SCORES or not run.rows for run in runs)
    return "eval_return" if evaluated else "episodic_return"


def _varied_fields(runs: Sequence[RunRecord]) -> list[str]:
    """Return the fields, other than those of the shape, in which runs of a task differ."""
    keys = [dict(run.group_key) for run in runs]
    names = dict.fromkeys(name for key in keys for name in key if name not in SHAPE_FIELDS)
    return [name for name in names if len({key.get(name) for key in keys}) > 1]


def _group_order(run: RunRecord, varied: Sequence[str]) -> tuple[Any, ...]:
    values = (part for name in varied for part in _sort_key(run.setting(name)))
    return (run.plan.num_envs, run.plan.num_steps, *values)


def _sort_key(value: Any) -> tuple[Any, ...]:
    """Sort numbers by size, before everything else by its text."""
    if isinstance(value, dict):
        return tuple(part for inner in value.values() for part in _sort_key(inner))
    return (0, float(value), "") if isinstance(value, (int, float)) else (1, 0.0, str(value))


def _group_labels(runs: Sequence[RunRecord], varied: Sequence[str]) -> list[str]:
    """Label groups by shape where that is unique, else also by as many of the differing fields as it takes."""
    shapes = [run.shape for run in runs]
    is_one_shape = len(runs) > 1 and len(set(shapes)) == 1
    parts = [[] if is_one_shape else [shape] for shape in shapes]
    for name in sorted(varied, key=lambda name: LABELS.index(name) if name in LABELS else len(LABELS)):
        if len({tuple(part) for part in parts}) == len(runs):
            break
        for part, run in zip(parts, runs, strict=True):
            value = format_value(run.setting(name))
            part.append(value if name in LABELS else f"{name} {value}")
    return [", ".join(part) for part in parts]


def _task_label(run: RunRecord) -> str:
    options = run.spec.env_kwargs or {}
    return " ".join([run.spec.env, *(f"{name}={format_value(value)}" for name, value in options.items())])
