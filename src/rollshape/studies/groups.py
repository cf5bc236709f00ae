"""Runs as a report and a verdict see them: tasks, whose scores can be compared, and groups that differ in the seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rollshape.studies.curves import Alignment, Curve, area_under, curve
from rollshape.studies.records import Record
from rollshape.studies.registered import solved_at
from rollshape.studies.statistics import Floats, centre
from rollshape.studies.verdict import FEWEST

SHAPE = ("num_envs", "num_steps", "rollout_size")
ENDED = ("done", "diverged")
MOST_OF_THE_WAY = 0.8  # from the start to the best end: the threshold where none is registered


@dataclass(frozen=True)
class Group:
    """Runs that differ in the seed only."""

    label: str
    runs: tuple[Record, ...]

    @property
    def spec(self) -> dict[str, Any]:
        return self.runs[0].spec

    @property
    def plan(self) -> dict[str, Any]:
        return self.runs[0].plan

    def field(self, name: str) -> Any:
        """A size as it was planned, or any other field as it was given."""
        return self.plan[name] if name in self.plan else self.spec.get(name)


@dataclass(frozen=True)
class Task:
    """Groups on one environment: the only ones whose scores may be compared."""

    label: str
    groups: tuple[Group, ...]
    metric: str  # eval_return, or the training return where runs were not scored along the way

    @property
    def env(self) -> str:
        return str(self.groups[0].spec["env"])

    @cached_property
    def lowest(self) -> float:
        """What a diverged run counts as: the lowest score that any run had."""
        seen = [value for group in self.groups for run in group.runs for value in run.values(self.metric)]
        return float(min(seen)) if seen else 0.0

    def scores(self) -> dict[str, Floats]:
        """Group → the final returns of its runs that have ended; groups without one are left out."""
        found = {}
        for group in self.groups:
            values = [value for run in group.runs if (value := self._final(run)) is not None]
            if values:
                found[group.label] = np.array(values, np.float64)
        return found

    def _final(self, run: Record) -> float | None:
        if run.status == "diverged":
            return self.lowest
        value = run.summary.get("final_return")
        return None if value is None or run.status != "done" else float(value)

    def curves(self, group: Group, by: Alignment) -> list[Curve]:
        """The curves of a group's runs that have one."""
        steps = group.plan["gradient_steps_per_update"]
        lines = [curve(run.rows, by, steps, self.metric) for run in group.runs if run.values(self.metric)]
        return [line for line in lines if len(line.x)]

    def areas(self) -> dict[str, Floats]:
        """Group → mean height of each ended run's curve up to the shortest budget; what diverged goes on lowest."""
        until = min(float(group.plan["actual_timesteps"]) for group in self.groups)
        found = {}
        for group in self.groups:
            values = []
            for run in group.runs:
                line = curve(run.rows, "timesteps", 1, self.metric)
                if run.status not in ENDED or not len(line.x):
                    continue
                if run.status == "diverged" and line.x[-1] < until:
                    line = Curve(np.append(line.x, (line.x[-1] + 1, until)), np.append(line.y, [self.lowest] * 2))
                values.append(area_under(line, until))
            if values:
                found[group.label] = np.array(values, np.float64)
        return found

    def threshold(self) -> tuple[float, str] | None:
        """(a score to reach, where it comes from): the registered one if some run reaches it, else 80 % of the rise."""
        lines = [line for group in self.groups for line in self.curves(group, "timesteps")]
        if not lines:
            return None
        registered = solved_at(self.env)
        if registered is not None and max(float(line.y.max()) for line in lines) >= registered:
            return registered, "registered as solved"
        start = float(np.median([line.y[0] for line in lines]))
        best = max((float(centre(runs)) for runs in self.scores().values()), default=start)
        told = (
            f"{MOST_OF_THE_WAY:.0%} of the way from {start:.4g}, the first score, to {best:.4g}, the best group's end"
        )
        return start + MOST_OF_THE_WAY * (best - start), told


def tasks(records: Sequence[Record]) -> list[Task]:
    """The runs of a study or of a folder, sorted by shape and by what else differs."""
    by_task: dict[Any, dict[Any, list[Record]]] = {}
    for record in records:
        by_task.setdefault(record.task, {}).setdefault(record.group, []).append(record)
    found = []
    for groups in by_task.values():
        runs = sorted(groups.values(), key=lambda group: _order(group[0], _varied(groups.values())))
        named = _labels([group[0] for group in runs])
        found.append(
            Task(
                _task_label(runs[0][0]),
                tuple(
                    Group(name, tuple(sorted(group, key=lambda run: run.spec["seed"])))
                    for name, group in zip(named, runs, strict=True)
                ),
                _metric(runs),
            )
        )
    return sorted(found, key=lambda task: _key(task.groups[0].spec.get("env_kwargs")) + _key(task.label))


def _metric(groups: Sequence[Sequence[Record]]) -> str:
    scored = all(len(run.values("eval_return")) >= FEWEST or not run.rows for group in groups for run in group)
    return "eval_return" if scored else "episodic_return"


def _varied(groups: Any) -> list[str]:
    """Fields, other than those of the shape, in which groups of a task differ."""
    first = [dict(group[0].group) for group in groups]
    names = [name for name in first[0] if name not in SHAPE]
    return [name for name in names if len({each.get(name) for each in first}) > 1]


def _order(run: Record, varied: Sequence[str]) -> tuple[Any, ...]:
    return (run.plan["num_envs"], run.plan["num_steps"], *(part for name in varied for part in _key(run.spec[name])))


def _key(value: Any) -> tuple[Any, ...]:
    """Numbers by size, before everything else by its text."""
    if isinstance(value, dict):
        return tuple(part for inner in value.values() for part in _key(inner))
    return (0, float(value), "") if isinstance(value, (int, float)) else (1, 0.0, str(value))


def _labels(runs: Sequence[Record]) -> list[str]:
    """By shape where that tells them apart, by what differs otherwise."""
    shapes = [run.shape for run in runs]
    varied = _varied([[run] for run in runs])
    if len(set(shapes)) == len(runs):
        return shapes
    told = [", ".join(f"{name} {_word(run.spec[name])}" for name in varied) for run in runs]
    if len(set(shapes)) > 1:
        told = [f"{shape}, {rest}" for shape, rest in zip(shapes, told, strict=True)]
    return told


def _task_label(run: Record) -> str:
    options = run.spec.get("env_kwargs") or {}
    return " ".join([str(run.spec["env"]), *(f"{name}={_word(value)}" for name, value in options.items())])


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
