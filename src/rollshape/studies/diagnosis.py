"""Diagnose runs: how each run's learning curve ended, and for bad runs the suspected causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rollshape.geometry.rules import Finding
from rollshape.studies.gymnasium_registry import reward_threshold
from rollshape.studies.records import RunRecord, read_records
from rollshape.studies.run_verdict import RunVerdict, classify_run, end_score
from rollshape.studies.suspects import Examination, UnmeasuredSuspect, examine

LOSSES = ("value_loss", "policy_loss", "entropy", "approx_kl")
MIN_LOST_ROWS = 5


@dataclass(frozen=True)
class Diagnosis:
    """A run's verdict and, unless it learned, its suspects (strongest evidence first).

    `cleared` are suspects that the log rules out, `not_measurable` those about which it does not say enough.
    """

    record: RunRecord
    verdict: RunVerdict
    suspects: list[Finding]
    cleared: list[Finding]
    not_measurable: list[UnmeasuredSuspect]

    def to_dict(self) -> dict[str, Any]:
        return {
            "run_dir": str(self.record.path),
            "env": self.record.spec.env,
            "trainer": self.record.trainer.to_dict(),
            "num_envs": self.record.plan.num_envs,
            "num_steps": self.record.plan.num_steps,
            "seed": self.record.spec.seed,
            **self.verdict.to_dict(),
            "success_rate": self.record.late_median("success_rate"),
            "suspects": [finding.to_dict() for finding in self.suspects],
            "cleared": [finding.to_dict() for finding in self.cleared],
            "not_measurable": [suspect.to_dict() for suspect in self.not_measurable],
        }


def diagnose(path: Path, target: float | None = None) -> list[Diagnosis]:
    """Diagnose every run of a run directory, a study or a folder of runs."""
    return diagnose_records(read_records(path), target)


def diagnose_records(records: Sequence[RunRecord], target: float | None = None) -> list[Diagnosis]:
    """Diagnose runs, sorted by environment and shape, comparing those of one environment with each other.

    `target` is the return that counts as solved, by default Gymnasium's registered threshold, if there is one.
    """
    tasks: dict[tuple[str, str], list[RunRecord]] = {}
    for record in records:
        tasks.setdefault(record.task_key, []).append(record)
    best = {key: best_end(task) if len(task) > 1 else None for key, task in tasks.items()}
    return [
        _diagnose_record(record, tasks[record.task_key], best[record.task_key], target)
        for record in sorted(records, key=_shape_order)
    ]


def _shape_order(record: RunRecord) -> tuple[Any, ...]:
    plan = record.plan
    return record.task_key, plan.num_envs, plan.num_steps, record.group_key, record.spec.seed, str(record.path)


def group_diagnoses(diagnoses: Sequence[Diagnosis]) -> dict[Any, list[Diagnosis]]:
    """Return the diagnoses of runs that differ in the seed only, by (task, group), in their order."""
    groups: dict[Any, list[Diagnosis]] = {}
    for diagnosis in diagnoses:
        groups.setdefault((diagnosis.record.task_key, diagnosis.record.group_key), []).append(diagnosis)
    return groups


def common_suspect(diagnoses: Sequence[Diagnosis]) -> tuple[Finding, int] | None:
    """Return the most common first suspect, from one of the runs, and how many runs have it first."""
    first = [diagnosis.suspects[0] for diagnosis in diagnoses if diagnosis.suspects]
    common = Counter(finding.rule for finding in first).most_common(1)
    if not common:
        return None
    [(rule, count)] = common
    return next(finding for finding in first if finding.rule == rule), count


def _diagnose_record(
    record: RunRecord, task: Sequence[RunRecord], best: float | None, target: float | None
) -> Diagnosis:
    threshold = reward_threshold(record.spec.env) if target is None else target
    status = "diverged" if has_lost_losses(record) else record.status
    verdict = classify_run(record.rows, status, threshold, best)
    if verdict.name == "learned":
        return Diagnosis(record, verdict, *Examination([], [], []))
    others = [other for other in task if other.group_key != record.group_key]
    return Diagnosis(record, verdict, *examine(record, others))


def has_lost_losses(record: RunRecord) -> bool:
    """Return whether losses that a run of another library used to report are missing at its end: not finite.

    Our trainer and some libraries stop then; others go on, and their logs have null from there on.
    """
    last = max(MIN_LOST_ROWS, len(record.rows) // 10)
    if record.trainer.is_ours or len(record.rows) < 2 * last:
        return False
    before, after = slice(None, -last), slice(-last, None)
    reported = [name for name in LOSSES if len(record.values(name, before)) >= 0.5 * (len(record.rows) - last)]
    return bool(reported) and not any(record.values(name, after) for name in reported)


def best_end(records: Sequence[RunRecord]) -> float | None:
    """Return the highest end score of any group of runs, each group by its median."""
    groups: dict[Any, list[float]] = {}
    for record in records:
        end = end_score(record.rows)
        if end is not None and record.status != "diverged":
            groups.setdefault(record.group_key, []).append(end)
    return max((float(np.median(ends)) for ends in groups.values()), default=None)
