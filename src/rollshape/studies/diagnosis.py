"""Diagnose runs: how each run's learning curve ended, and for bad runs the suspected causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rollshape.geometry.rules import Finding
from rollshape.studies.gymnasium_registry import reward_threshold
from rollshape.studies.records import RunRecord, read_records
from rollshape.studies.run_verdict import RunVerdict, classify_run, end_score
from rollshape.studies.suspects import rank_suspects


@dataclass(frozen=True)
class Diagnosis:
    """A run's verdict and, for a bad run, its suspects (strongest evidence first) and the cleared suspects."""

    record: RunRecord
    verdict: RunVerdict
    suspects: list[Finding]
    cleared: list[Finding]

    def to_dict(self) -> dict[str, Any]:
        return {
            "run_dir": str(self.record.path),
            "num_envs": self.record.plan.num_envs,
            "num_steps": self.record.plan.num_steps,
            "seed": self.record.spec.seed,
            **self.verdict.to_dict(),
            "success_rate": self.record.late_median("success_rate"),
            "suspects": [finding.to_dict() for finding in self.suspects],
            "cleared": [finding.to_dict() for finding in self.cleared],
        }


def diagnose(path: Path, target: float | None = None) -> list[Diagnosis]:
    """Diagnose every run of a run directory, a study or a folder of runs."""
    return diagnose_records(read_records(path), target)


def diagnose_records(records: Sequence[RunRecord], target: float | None = None) -> list[Diagnosis]:
    """Diagnose runs, comparing those of one environment with each other.

    `target` is the return that counts as solved, by default Gymnasium's registered threshold, if there is one.
    """
    tasks: dict[tuple[str, str], list[RunRecord]] = {}
    for record in records:
        tasks.setdefault(record.task_key, []).append(record)
    best = {key: best_end(task) if len(task) > 1 else None for key, task in tasks.items()}
    return [_diagnose_record(record, tasks[record.task_key], best[record.task_key], target) for record in records]


def _diagnose_record(
    record: RunRecord, task: Sequence[RunRecord], best: float | None, target: float | None
) -> Diagnosis:
    threshold = reward_threshold(record.spec.env) if target is None else target
    verdict = classify_run(record.rows, record.status, threshold, best)
    if not verdict.is_bad:
        return Diagnosis(record, verdict, [], [])
    suspects, cleared = rank_suspects(record, [other for other in task if other.group_key != record.group_key])
    return Diagnosis(record, verdict, suspects, cleared)


def best_end(records: Sequence[RunRecord]) -> float | None:
    """Return the highest end score of any group of runs, each group by its median."""
    groups: dict[Any, list[float]] = {}
    for record in records:
        end = end_score(record.rows)
        if end is not None and record.status != "diverged":
            groups.setdefault(record.group_key, []).append(end)
    return max((float(np.median(ends)) for ends in groups.values()), default=None)
