"""One run as it is read from its folder: the files, what is known of the run, its rows, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rollshape.errors import RequestError
from rollshape.integrations.description import RunDescription
from rollshape.integrations.logs.events import read_events
from rollshape.integrations.logs.folders import RunFolder
from rollshape.integrations.logs.libraries import recognize
from rollshape.integrations.logs.library import Facts, LibraryLog
from rollshape.integrations.logs.merging import merge
from rollshape.integrations.logs.monitors import add_episodes
from rollshape.integrations.logs.reading import printable
from rollshape.integrations.logs.rl_games_tags import mark_frames
from rollshape.integrations.logs.rows import LoggedRows, build_rows
from rollshape.integrations.logs.sb3_files import MonitorFile, read_evaluations, read_monitor, read_progress
from rollshape.integrations.logs.sb3_tags import MONITOR_RETURN
from rollshape.integrations.logs.series import LogFile
from rollshape.integrations.logs.sizes import ImportOptions, describe_run
from rollshape.integrations.logs.wandb_file import read_wandb
from rollshape.integrations.logs.wandb_table import read_wandb_table
from rollshape.integrations.writer import COLUMNS, RunWriter, Status


@dataclass(frozen=True)
class ImportedRun:
    """One run as it was read: where from, what is known of it, its rows, and how it ended."""

    source: Path
    name: str
    description: RunDescription
    rows: list[dict[str, Any]]
    notes: list[str]
    status: Status
    summary: Mapping[str, Any]

    def write(self, path: Path) -> None:
        """Write a run directory; a RequestError if there is a run already."""
        writer = RunWriter(path, self.description)
        for note in (f"imported from {printable(str(self.source))}", *self.notes):
            writer.note(note)
        for row in self.rows:
            writer.append(row)
        writer.end(self.status, **self.summary)

    def columns(self) -> tuple[list[str], list[str]]:
        """Return (columns with values, columns that the log does not give)."""
        names = dict.fromkeys((*COLUMNS, *(name for row in self.rows[:1] for name in row)))
        known = [name for name in names if any(row.get(name) is not None for row in self.rows)]
        return known, [name for name in names if name not in known]

    def to_dict(self) -> dict[str, Any]:
        plan, (known, missing) = self.description.plan, self.columns()
        return {
            "source": printable(str(self.source)),
            "library": self.description.trainer.name,
            "dialect": self.description.trainer.dialect,
            "env": self.description.env,
            "algo": plan.algo,
            "num_envs": plan.num_envs,
            "num_steps": plan.num_steps,
            "minibatch_size": plan.minibatch_size,
            "num_epochs": plan.num_epochs,
            "status": self.status,
            "rows": len(self.rows),
            "updates": self.rows[-1]["update"],
            "timesteps": self.rows[-1]["timesteps"],
            "columns": known,
            "missing": missing,
            "assumed": dict(self.description.to_document()["assumed"]),
            "notes": self.notes,
        }


def read_run_folder(folder: RunFolder, options: ImportOptions) -> list[ImportedRun]:
    """Read the run of a folder; a CSV export of a chart may hold several."""
    if folder.tables:
        logs = read_wandb_table(folder.tables[0])
        if not logs:
            raise RequestError("log", f"{folder.tables[0]} has no column of a tag.", "Export it again.")
        library = recognize(_tags(logs.values()), options.dialect, str(folder.tables[0]))
        return [_import(_replace_name(folder, name), [log], [], library, options) for name, log in logs.items()]
    files = [read_events(path) for path in folder.events] + [read_wandb(path) for path in folder.offline]
    for path in folder.progress:
        files.append(_only_new(read_progress(path), _tags(files)))
    for path in folder.evaluations:
        files.append(_only_new(read_evaluations(path), _tags(files)))
    monitors = [read_monitor(path) for path in folder.monitors]
    tags = _tags(files) | ({MONITOR_RETURN} if monitors else set())
    library = recognize(tags, options.dialect, str(folder.folder))
    return [_import(folder, files, monitors, library, options)]


def _tags(files: Iterable[LogFile]) -> set[str]:
    return {tag for file in files for tag in file.scalars}


def _replace_name(folder: RunFolder, name: str) -> RunFolder:
    """Return the folder as that of one run of an export."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name).strip(".")
    return replace(folder, name=safe[:100] or folder.name)


def _only_new(log: LogFile, tags: set[str]) -> LogFile:
    """Return a log without the tags that another file of the run has, too."""
    log.scalars = {tag: series for tag, series in log.scalars.items() if tag not in tags}
    return log


def _import(
    folder: RunFolder,
    files: list[LogFile],
    monitors: list[MonitorFile],
    library: LibraryLog,
    options: ImportOptions,
) -> ImportedRun:
    _check_axis(files, library)
    merged = merge(folder.folder, files, library)
    env = next((monitor.env for monitor in monitors if monitor.env), None)
    description, notes = describe_run(folder, library, merged.log, options, env)
    if monitors:
        merged = add_episodes(merged, monitors, description.plan, library, notes)
    facts = Facts(description.plan, description.config, set(merged.log.scalars) | mark_frames(merged.log))
    library.check(merged.log, facts)
    logged = build_rows(merged, library, facts)
    if not logged.rows:
        raise RequestError(
            "log", f"The log in {folder.folder} has no value of a completed update.", "Train longer, then import it."
        )
    status = _status(logged, description, notes)
    scores = [score for score in library.final_scores(merged.log) if math.isfinite(score)]
    summary = {
        "timesteps": logged.rows[-1]["timesteps"],
        "final_return": sum(scores) / len(scores) if scores else None,
        "final_episodes": len(scores),
        "sps": _mean_speed(logged.rows),
    }
    all_notes = [printable(note) for note in dict.fromkeys([*notes, *merged.log.notes, *logged.notes])]
    return ImportedRun(folder.folder, folder.name, description, logged.rows, all_notes, status, summary)


def _check_axis(files: list[LogFile], library: LibraryLog) -> None:
    for file in files:
        if file.axis not in library.axes and any(library.lookup(tag) for tag in file.scalars):
            raise RequestError(
                "log",
                f"The rows of {file.path} are numbered by W&B ({file.axis}), not by {library.axis}.",
                "Export it with the column global_step, or import the event files.",
            )


def _status(logged: LoggedRows, description: RunDescription, notes: list[str]) -> Status:
    """Return how a run ended: by its last losses, and by whether the log reaches the budget of the config."""
    last, updates = logged.rows[-1]["update"], description.plan.num_updates
    if logged.has_diverged:
        notes.append("the last losses are not finite")
        return "diverged"
    if updates is None:
        notes.append("the budget is unknown: the run counts as finished where its log ends")
        return "done"
    interval = max((later["update"] - row["update"] for row, later in zip(logged.rows, logged.rows[1:], strict=False)),
                   default=1)  # fmt: skip
    if last + max(interval, 1) <= updates:
        notes.append(f"the log ends after {last:,} of {updates:,} updates")
        return "interrupted"
    return "done"


def _mean_speed(rows: list[dict[str, Any]]) -> float | None:
    """Return the environment steps per second from the first timed row to the last one."""
    timed = [row for row in rows if row["wall_time"] is not None]
    seconds = timed[-1]["wall_time"] - timed[0]["wall_time"] if len(timed) > 1 else 0.0
    return (timed[-1]["timesteps"] - timed[0]["timesteps"]) / seconds if seconds > 0 else None
