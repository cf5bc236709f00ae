"""Runs as diagnosis and reports read them: spec, plan, metrics, probes and how the run ended, all typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rollshape.errors import RequestError
from rollshape.geometry.plan import Plan
from rollshape.probes.result import Probe
from rollshape.studies.documents import RunSummary, read_run, reading
from rollshape.studies.metrics import MetricsRow
from rollshape.studies.probe_records import StoredProbe, read_probe_file
from rollshape.studies.store import Store
from rollshape.training.rundir import NEW_DIRECTORY, RunDirectory
from rollshape.training.spec import Spec
from rollshape.training.trainer import OURS, UNKNOWN_ENV, Trainer

NOT_PART_OF_GROUP = (
    "seed", "log_every", "checkpoint_every", "eval_after", "eval_every", "stop_at_return", "final_episodes",
)  # fmt: skip
NOT_PART_OF_CONFIG = ("seed", "name", "dir", "path", "folder", "time_stamp", "wandb", "track", "device", "verbose")


@dataclass(frozen=True)
class RunRecord:
    """A run that was read from its directory. `probes` are keyed by their share of the run, in (0, 1]."""

    path: Path
    spec: Spec
    plan: Plan
    status: str
    rows: list[MetricsRow]
    probes: dict[float, StoredProbe]
    final_return: float | None
    sps: float | None  # of the whole run
    versions: dict[str, str]
    trainer: Trainer = OURS
    unknown: frozenset[str] = frozenset()  # fields of the spec that a run of another library does not give
    config: Mapping[str, Any] = field(default_factory=dict)  # of another library, in its own keys
    assumed: Mapping[str, Any] = field(default_factory=dict)  # keys that are not in the config, with its defaults

    @property
    def shape(self) -> str:
        return f"{self.plan.num_envs}×{self.plan.num_steps}"

    @cached_property
    def group_key(self) -> tuple[tuple[str, str], ...]:
        """What runs that differ in the seed only have in common: (field, value) pairs."""
        values = self.spec.to_dict()
        settings = ((name, str(value)) for name, value in values.items() if name not in NOT_PART_OF_GROUP)
        return (*settings, ("trainer", self.trainer.name), *_config_entries(self.config))

    def setting(self, name: str) -> Any:
        """Return the value of a name in `group_key`: a field of the spec, or the text of another library's key."""
        return getattr(self.spec, name) if hasattr(self.spec, name) else dict(self.group_key).get(name, "")

    @property
    def task_key(self) -> tuple[str, str]:
        """What runs whose scores can be compared have in common: the environment and its options.

        A run whose environment is unknown can be compared with no other.
        """
        return self.spec.env, str(self.path) if "env" in self.unknown else str(self.spec.env_kwargs)

    def knows(self, name: str) -> bool:
        """Return whether a field of the spec is known; for runs of other libraries some are not."""
        return name not in self.unknown

    def values(self, name: str, rows: slice = slice(None)) -> list[float]:
        """Return a metric along the run; rows without it are left out."""
        return [value for row in self.rows[rows] if (value := row.metric(name)) is not None]

    def median(self, name: str, rows: slice = slice(None)) -> float | None:
        """Return the median of a metric over rows, or None if no row has it."""
        values = self.values(name, rows)
        return float(np.median(values)) if values else None

    def late_median(self, name: str, parts: int = 5) -> float | None:
        """Return the median of a metric over the last of so many equal parts of the run."""
        return self.median(name, slice((parts - 1) * len(self.rows) // parts, None))

    def at_epoch(self, name: str, epoch: int, rows: slice = slice(None)) -> list[float]:
        """Return a per-epoch metric along the run, at one epoch of every row."""
        values = [row.epoch_metric(name)[epoch] for row in self.rows[rows] if row.epoch_metric(name)]
        return [value for value in values if value is not None]

    def measured_probes(self) -> list[Probe]:
        """Return the probes that measured a gradient, in the order of the run."""
        return [probe for probe in self.probes.values() if isinstance(probe, Probe)]


def read_records(path: Path) -> list[RunRecord]:
    """Read a run directory, the runs of a study, or the runs of a folder."""
    if RunDirectory(path).exists():
        return [_read_record(path)]
    store = Store(path)
    if store.journal.exists():
        records = [_read_record(folder, store.probe_files(folder.name)) for folder in _run_folders(path / "trials")]
    else:
        records = [_read_record(folder) for folder in _run_folders(path)]
    if not records:
        raise RequestError("run", f"{path} holds no run.", "Give a run directory, a study, or a folder of runs.")
    return records


def _run_folders(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(path.parent for path in folder.glob("*/run.json"))
    except OSError as error:
        raise RequestError("run", f"{folder} cannot be read: {error.strerror}.", "Check the path.") from None


def _read_record(path: Path, probe_files: Mapping[float, Path] | None = None) -> RunRecord:
    directory = RunDirectory(path)
    document, spec, plan = read_run(directory)
    trainer, rows = directory.trainer(), _read_rows(directory)
    if plan.num_updates is None and not trainer.is_ours and rows:  # without a budget in the config
        plan = _with_budget(plan, rows[-1])
    if plan.num_updates is None or plan.num_updates < 1:
        raise RequestError(
            "run", f"{path / 'run.json'} holds a plan without a budget.", "Train again in another directory."
        )
    if probe_files is None:
        probe_files = _probe_files(path, plan.num_updates)
    summary = document.get("summary", RunSummary())
    return RunRecord(
        path=path,
        spec=spec,
        plan=plan,
        status=document["status"],
        rows=rows,
        probes={share: read_probe_file(file) for share, file in probe_files.items()},
        final_return=summary.get("final_return"),
        sps=summary.get("sps"),
        versions=document["versions"],
        trainer=trainer,
        unknown=frozenset() if trainer.is_ours else _unknown_fields(document["spec"]),
        config=document.get("config", {}),
        assumed=document.get("assumed", {}),
    )


def _unknown_fields(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return the fields of a Spec that the description of another library's run does not give."""
    known = {name for name in spec if name != "env" or spec[name] != UNKNOWN_ENV}
    return frozenset(item.name for item in fields(Spec)) - known


def _with_budget(plan: Plan, last: MetricsRow) -> Plan:
    """Return the plan of a run whose config has no budget: as many updates as it made."""
    return replace(
        plan,
        total_timesteps=last.timesteps,
        actual_timesteps=last.timesteps,
        num_updates=last.update,
        gradient_steps=last.update * plan.gradient_steps_per_update,
    )


def _config_entries(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield (key, value) of a config, except what differs between seeds of one experiment: seed, names, folders."""
    for name, value in config.items():
        if any(word in str(name).lower() for word in NOT_PART_OF_CONFIG):
            continue
        if isinstance(value, Mapping):
            yield from _config_entries(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)


def _read_rows(directory: RunDirectory) -> list[MetricsRow]:
    with reading(directory.path / "run.json", NEW_DIRECTORY):
        rows = list(directory.rows())
    typed_rows = []
    for number, row in enumerate(rows, 1):
        with reading(f"{directory.metrics.path}, line {number}", NEW_DIRECTORY):
            typed_rows.append(MetricsRow.from_dict(row))
    return typed_rows


def _probe_files(path: Path, num_updates: int) -> dict[float, Path]:
    """Return the files that `rollshape probe` wrote to a run directory, by their share of the run."""
    files = sorted((path / "probes").glob("[0-9]*/probe.json"), key=lambda file: int(file.parent.name))
    return {int(file.parent.name) / num_updates: file for file in files}
