"""Import logs of other libraries: one run or a folder of them, as run directories of ours or as records."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rollshape.errors import RequestError
from rollshape.files import output_directory
from rollshape.integrations.logs.folders import find_runs
from rollshape.integrations.logs.imported_run import ImportedRun, read_run_folder
from rollshape.integrations.logs.reading import printable
from rollshape.integrations.logs.sizes import ImportOptions
from rollshape.studies.records import RunRecord, read_records
from rollshape.studies.store import Store
from rollshape.training.rundir import RunDirectory


@dataclass(frozen=True)
class SkippedLog:
    """A folder with a log that could not be imported, and why."""

    source: Path
    error: RequestError

    def to_dict(self) -> dict[str, Any]:
        return {"source": printable(str(self.source)), **self.error.to_dict()}


@dataclass(frozen=True)
class LogImport:
    """The runs at a path, and the logs that could not be imported."""

    runs: list[ImportedRun] = field(default_factory=list)
    skipped: list[SkippedLog] = field(default_factory=list)


def read_logs(path: Path, options: ImportOptions) -> LogImport:
    """Read the logs at a path. If none can be imported, the first problem is raised."""
    result = _collect(path, options)
    if not result.runs:
        if result.skipped:
            raise result.skipped[0].error
        raise RequestError(
            "log",
            f"{path} holds no log that is known (TensorBoard event files, progress.csv, monitor.csv, .wandb).",
            "Give the folder in which SB3, CleanRL, rl_games, RSL-RL or skrl wrote its log.",
        )
    return result


def _collect(path: Path, options: ImportOptions) -> LogImport:
    result = LogImport()
    for folder in find_runs(path):
        try:
            result.runs.extend(read_run_folder(folder, options))
        except RequestError as error:
            result.skipped.append(SkippedLog(folder.folder, error))
    return result


def write_runs(result: LogImport, out: str | Path) -> list[Path]:
    """Write the runs: a single one to `out` itself, several to folders in it. Return the run directories."""
    folder = output_directory(out)
    if len(result.runs) == 1:
        places = [folder]
    else:
        names: dict[str, int] = {}
        places = []
        for run in result.runs:
            count = names[run.name] = names.get(run.name, 0) + 1
            places.append(folder / (run.name if count == 1 else f"{run.name}-{count}"))
    for place in places:
        if RunDirectory(place).exists():
            raise RequestError("run", f"{place} already holds a run.", "Use another --out.")
    for run, place in zip(result.runs, places, strict=True):
        run.write(place)
    return places


def read_all_records(path: Path, options: ImportOptions) -> tuple[list[RunRecord], list[SkippedLog]]:
    """Return the records of our run directories at a path and of the logs of other libraries, and what was skipped."""
    ours = _own_records(path)
    if ours and (RunDirectory(path).exists() or Store(path).journal.exists()):
        return ours, []
    result = _collect(path, options)
    if not ours and not result.runs:
        if result.skipped:
            raise result.skipped[0].error
        raise RequestError(
            "run",
            f"{path} holds no run, and no log of another library.",
            "Give a run directory, a study, a folder of runs, or the folder of a log.",
        )
    with tempfile.TemporaryDirectory(prefix="rollshape-") as scratch:
        imported = []
        for number, run in enumerate(result.runs):
            run.write(Path(scratch) / str(number))
            [record] = read_records(Path(scratch) / str(number))
            imported.append(replace(record, path=run.source))
    return [*ours, *imported], result.skipped


def _own_records(path: Path) -> list[RunRecord]:
    """Return the records of our runs at a path, none if it holds no run of ours."""
    has_runs = any(path.glob("*/run.json")) or Store(path).journal.exists() or RunDirectory(path).exists()
    return read_records(path) if has_runs else []
