"""`rollshape diagnose`: what became of each run, and for the bad ones why, by measured evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rollshape.geometry.rules import Finding
from rollshape.studies.records import Record, read_records
from rollshape.studies.registered import solved_at
from rollshape.studies.suspects import ranked
from rollshape.studies.verdict import Judgement, end_score, judge


@dataclass(frozen=True)
class Diagnosis:
    """A run's verdict; where it is bad, its suspects, the strongest evidence first, and those that are cleared."""

    record: Record
    judgement: Judgement
    suspects: list[Finding]
    cleared: list[Finding]

    def to_dict(self) -> dict[str, Any]:
        success = self.record.median("success_rate", slice(4 * len(self.record.rows) // 5, None))
        return {
            "run_dir": str(self.record.path),
            "num_envs": self.record.plan["num_envs"],
            "num_steps": self.record.plan["num_steps"],
            "seed": self.record.spec["seed"],
            **self.judgement.to_dict(),
            "success_rate": success,
            "suspects": [finding.to_dict() for finding in self.suspects],
            "cleared": [finding.to_dict() for finding in self.cleared],
        }


def diagnose(path: Path, target: float | None = None) -> list[Diagnosis]:
    """Every run of a run directory, a study or a folder of runs."""
    return diagnosed(read_records(path), target)


def diagnosed(records: Sequence[Record], target: float | None = None) -> list[Diagnosis]:
    """Every run, those of one environment compared with each other. `target` is the score that counts as solved, by
    default that of Gymnasium's registry, if it has one."""
    tasks: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        tasks.setdefault(record.task, []).append(record)
    best = {name: best_end(task) if len(task) > 1 else None for name, task in tasks.items()}
    return [_diagnosed(record, tasks[record.task], best[record.task], target) for record in records]


def _diagnosed(record: Record, task: Sequence[Record], best: float | None, target: float | None) -> Diagnosis:
    solved = solved_at(record.spec["env"]) if target is None else target
    judgement = judge(record.rows, record.status, solved, best)
    if not judgement.bad:
        return Diagnosis(record, judgement, [], [])
    suspects, cleared = ranked(record, [other for other in task if other.group != record.group])
    return Diagnosis(record, judgement, suspects, cleared)


def best_end(records: Sequence[Record]) -> float | None:
    """The highest end of any group of runs, each group by its median."""
    groups: dict[Any, list[float]] = {}
    for record in records:
        end = end_score(record.rows)
        if end is not None and record.status != "diverged":
            groups.setdefault(record.group, []).append(end)
    return max((float(np.median(ends)) for ends in groups.values()), default=None)
