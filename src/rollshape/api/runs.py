"""Runs in Python: one class for a run that was just trained and for one that is read from a folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollshape.api.plots import plot_run, plot_tasks
from rollshape.api.tables import to_frame
from rollshape.errors import RequestError
from rollshape.files import output_directory
from rollshape.geometry.calls import check_arguments, check_names
from rollshape.integrations.logs.importing import read_all_records
from rollshape.integrations.logs.sizes import ImportOptions
from rollshape.probes.notebook import to_html
from rollshape.studies.groups import group_tasks
from rollshape.studies.metrics import MetricsRow
from rollshape.studies.records import RunRecord, read_records
from rollshape.training.run import TrainedRun
from rollshape.training.rundir import RunDirectory, fingerprint
from rollshape.typed import check_types

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PathOrRun = str | os.PathLike[str]
LOG_OPTIONS = tuple(item.name for item in fields(ImportOptions))
NO_OPTIONS: Mapping[str, Any] = {}


@dataclass(frozen=True, repr=False)
class Run(RunRecord):
    """A run, as it was when it was read: spec, plan, status, metrics, probes and final return.

    It is also a path, so that all functions that take a run directory take a Run. Runs of other libraries have the same
    attributes; `trainer` names the library, and `unknown` the fields of the spec that their files do not give.
    """

    summary: Mapping[str, Any] = field(default_factory=dict)  # in run.json; empty before the run has ended
    signal: int | None = None  # that interrupted the training

    def __fspath__(self) -> str:
        return str(self.path)

    @cached_property
    def metrics(self) -> Any:
        """One row per logging interval: a DataFrame of pandas or polars, or `Columns` if neither is installed.

        A value that does not exist is NaN (null in polars).
        """
        return to_frame([row.values for row in self.rows])

    @property
    def final_return_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the final return over its episodes; it says nothing about other seeds."""
        half = self.summary.get("final_return_ci")
        if half is None or self.final_return is None:
            return None
        return self.final_return - half, self.final_return + half

    @check_arguments
    def plot(self, *metrics: str) -> Figure:
        """Draw metrics against timesteps, by default the return and the main diagnostics.

        Args:
            metrics: names of columns of `metrics`, or "return" for training, evaluation and final return in one panel.
        """
        half, episodes = self.summary.get("final_return_ci"), self.summary.get("final_episodes")
        return plot_run(self, metrics, None if half is None or episodes is None else (half, episodes))

    def __repr__(self) -> str:
        facts = self._facts()
        score = f", final return {facts['final return']}" if "final return" in facts else ""
        return f"Run({self.path}: {facts['environment']}, {facts['shape']}, {facts['status']}{score})"

    def _repr_html_(self) -> str:
        figures = {"metrics of the run": self.plot()} if self.rows else {}
        return to_html(f"Run {self.path.name}", self._facts(), figures=figures)

    def _facts(self) -> dict[str, str]:
        facts = {
            "environment": self.spec.env,
            "algorithm": self.spec.algo,
            "shape": f"{self.shape} (N×T), minibatch {self.plan.minibatch_size:,}, {self.plan.num_epochs} epochs",
            "trainer": f"{self.trainer.name} {self.trainer.version or ''}".strip(),
            "status": self.status,
            "timesteps": f"{self.rows[-1].timesteps if self.rows else 0:,}",
        }
        if self.final_return is not None:
            half = self.summary.get("final_return_ci")
            interval = "" if half is None else f" ± {half:.2g} (95 %, {self.summary.get('final_episodes')} episodes)"
            facts["final return"] = f"{self.final_return:.4g}{interval}"
        if self.probes:
            facts["probes"] = "at " + ", ".join(f"{share:.0%}" for share in self.probes)
        return facts


class Runs(list[Run]):
    """Several runs: a list that can be drawn, and summarized as a table."""

    @property
    def table(self) -> Any:
        """One row per run: environment, shape, seed, status and final return, as a DataFrame or `Columns`."""
        return to_frame(
            [
                {
                    "run": run.path.name,
                    "trainer": run.trainer.name,
                    "env": run.spec.env,
                    "algo": run.spec.algo,
                    "num_envs": run.plan.num_envs,
                    "num_steps": run.plan.num_steps,
                    "minibatch_size": run.plan.minibatch_size,
                    "seed": run.spec.seed if run.knows("seed") else None,
                    "status": run.status,
                    "timesteps": run.rows[-1].timesteps if run.rows else 0,
                    "final_return": run.final_return,
                }
                for run in self
            ]
        )

    @check_arguments
    def plot(self, title: str | None = None) -> Figure:
        """Draw learning curves and final returns, grouped by environment and settings, with intervals over seeds."""
        if not self:
            raise RequestError("argument", "There is no run to draw.", "Load at least one run.")
        return plot_tasks(title or f"{len(self)} runs", group_tasks(self))

    def _repr_html_(self) -> str:
        facts = {str(run.path): f"{run.spec.env} {run.shape}, {run.status}" for run in self}
        return to_html(f"{len(self)} runs", facts, figures={"learning curves": self.plot()} if self else {})


@check_arguments
def load_run(path: PathOrRun, **log: Any) -> Run:
    """Read one run: a run directory, or the folder of a log of another library.

    Args:
        path: a directory that `rollshape train` or an integration of another library wrote, or a log.
        log: what the files of a log do not say, as in `rollshape import`: dialect, config, env, num_envs, ….
    """
    check_names("load_run", log, LOG_OPTIONS, load_run)
    folder = output_directory(os.fspath(path))
    records = read_path(folder, log)
    if len(records) != 1 or (records[0].trainer.is_ours and records[0].path != folder):
        raise RequestError(
            "run",
            f"{folder} is not a run directory, but holds {len(records)} run{'s' if len(records) != 1 else ''}.",
            "Use rollshape.load_runs.",
        )
    return _new_run(records[0])


@check_arguments
def load_runs(folder: PathOrRun, **log: Any) -> Runs:
    """Read all runs of a folder, of a study, or a single one; `log` as in `load_run`.

    Logs of other libraries that cannot be read are left out with a warning.
    """
    check_names("load_runs", log, LOG_OPTIONS, load_runs)
    return Runs(map(_new_run, read_path(output_directory(os.fspath(folder)), log)))


def read_path(path: Path, log: Mapping[str, Any] = NO_OPTIONS) -> list[RunRecord]:
    """Read the runs of a path: our run directories, and logs of other libraries."""
    options = ImportOptions(**log)
    try:
        check_types(options, ImportOptions, "log")
    except ValueError as error:
        raise RequestError("argument", f"{error}.", "Use the values that `rollshape import` takes.") from None
    records, skipped = read_all_records(path, options)
    for problem in skipped:
        warnings.warn(f"{problem.source} was left out: {problem.error.message}", RuntimeWarning, stacklevel=4)
    return records


def records_of(runs: PathOrRun | Iterable[RunRecord]) -> list[RunRecord]:
    """Return runs that are given as objects, or those of a path."""
    if isinstance(runs, RunRecord):
        return [runs]
    if isinstance(runs, (str, os.PathLike)):
        return read_path(output_directory(os.fspath(runs)))
    return list(runs)


def _new_run(record: RunRecord) -> Run:
    values = {item.name: getattr(record, item.name) for item in fields(RunRecord)}
    directory = RunDirectory(record.path)  # a log of another library has none
    return Run(**values, summary=directory.read().get("summary", {}) if directory.exists() else {})


def run_of_training(trained: TrainedRun) -> Run:
    """Return what `train` gives to a Python program; only the first of several processes has a directory."""
    probes = read_records(trained.path)[0].probes if RunDirectory(trained.path).exists() else {}
    return Run(
        path=trained.path,
        spec=trained.spec,
        plan=trained.plan,
        status=trained.status,
        rows=[MetricsRow.from_dict(row) for row in trained.metrics],
        probes=probes,
        final_return=trained.final_return,
        sps=trained.summary.get("sps"),
        versions=fingerprint(),
        summary=trained.summary,
        signal=trained.signal,
    )
