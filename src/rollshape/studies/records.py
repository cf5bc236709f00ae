"""Runs as their directories tell them: what diagnosis reads, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rollshape.errors import RequestError
from rollshape.studies.store import Store
from rollshape.training.rundir import RunDirectory

NOT_THE_SHAPE = ("seed", "log_every", "checkpoint_every", "eval_after", "eval_every", "stop_at_return")


@dataclass(frozen=True)
class Record:
    """A run: its spec, plan, status and rows, what was probed of it, moment by moment, and how it ended."""

    path: Path
    spec: dict[str, Any]
    plan: dict[str, Any]
    status: str
    rows: list[dict[str, Any]]
    probes: dict[float, dict[str, Any]]
    summary: dict[str, Any]
    versions: dict[str, str]

    @property
    def shape(self) -> str:
        return f"{self.plan['num_envs']}×{self.plan['num_steps']}"

    @cached_property
    def group(self) -> tuple[Any, ...]:
        """Runs of one group differ in the seed only."""
        return tuple((name, str(value)) for name, value in self.spec.items() if name not in NOT_THE_SHAPE)

    @cached_property
    def task(self) -> tuple[str, ...]:
        """Runs of one task can be compared by their scores."""
        return tuple(str(self.spec.get(name)) for name in ("env", "env_kwargs"))

    def values(self, name: str, rows: slice = slice(None)) -> list[Any]:
        """A metric along the run, without what is null."""
        return [row[name] for row in self.rows[rows] if row.get(name) is not None]

    def median(self, name: str, rows: slice = slice(None)) -> float | None:
        found = self.values(name, rows)
        return float(np.median(found)) if found else None

    def epochs(self, name: str, epoch: int) -> list[float]:
        """A metric of each epoch, at one of them."""
        found = [each[epoch] for each in self.values(name) if each]
        return [value for value in found if value is not None]


def read_records(path: Path) -> list[Record]:
    """The run of a run directory, or the runs of a study or of a folder of runs."""
    if RunDirectory(path).exists():
        return [_record(path)]
    store = Store(path)
    if store.journal.exists():
        found = [_record(folder, store.probes(folder.name)) for folder in _runs(path / "trials")]
    else:
        found = [_record(folder) for folder in _runs(path)]
    if not found:
        raise RequestError("run", f"{path} holds no run.", "Give a run directory, a study, or a folder of runs.")
    return found


def _runs(folder: Path) -> Iterator[Path]:
    yield from sorted(path.parent for path in folder.glob("*/run.json"))


def _record(path: Path, probes: dict[float, dict[str, Any]] | None = None) -> Record:
    document = RunDirectory(path).read()
    if not isinstance(document.get("plan"), dict) or not document["plan"].get("num_updates"):
        raise RequestError("run", f"{path / 'run.json'} holds no plan of a run.", "Train again, elsewhere.")
    probes = _own_probes(path, document["plan"]["num_updates"]) if probes is None else probes
    rows = list(RunDirectory(path).rows())
    told = document.get("summary") or {}
    return Record(
        path, document["spec"], document["plan"], document["status"], rows, probes, told, document["versions"]
    )


def _own_probes(path: Path, updates: int) -> dict[float, dict[str, Any]]:
    """What `rollshape probe` left beside a run."""
    found = sorted((path / "probes").glob("[0-9]*/probe.json"), key=lambda file: int(file.parent.name))
    return {int(file.parent.name) / updates: json.loads(file.read_text()) for file in found}
