"""Which folders hold the log of a run, and which files belong to it. Links to folders are not followed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from rollshape.errors import RequestError
from rollshape.integrations.logs.reading import printable

MOST_ENTRIES = 50_000  # files and folders that are looked at
DEEPEST = 12
SUBFOLDERS = ("summaries", "tb", "tensorboard")  # of a run's folder, which holds its config
OUR_RUN = "run.json"
EVENTS, PROGRESS, MONITOR, EVALUATIONS, OFFLINE = "tfevents", "progress.csv", "monitor.csv", "evaluations.npz", ".wandb"


@dataclass
class RunFolder:
    """The files of one run: `folder` is where they are, `home` where its config is looked for."""

    folder: Path
    name: str
    events: list[Path] = field(default_factory=list)
    progress: list[Path] = field(default_factory=list)
    monitors: list[Path] = field(default_factory=list)
    evaluations: list[Path] = field(default_factory=list)
    offline: list[Path] = field(default_factory=list)
    tables: list[Path] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.folder.parent if self.folder.name in SUBFOLDERS else self.folder

    @property
    def is_run(self) -> bool:
        return bool(self.events or self.progress or self.monitors or self.offline or self.tables)

    def add(self, path: Path) -> None:
        """Add a file by its name; files that are no logs are ignored."""
        name = path.name
        if EVENTS in name and not name.endswith((".profile-empty", ".gz")):
            self.events.append(path)
        elif name == PROGRESS:
            self.progress.append(path)
        elif name.endswith(MONITOR):
            self.monitors.append(path)
        elif name == EVALUATIONS:
            self.evaluations.append(path)
        elif name.endswith(OFFLINE):
            self.offline.append(path)


def find_runs(path: Path) -> list[RunFolder]:
    """Return the runs at a path: a file, the folder of a run, or a folder of them. Those of ours are skipped."""
    if path.is_file():
        return [_single_file(path)]
    if not path.is_dir():
        raise RequestError("log", f"{path} does not exist or is not readable.", "Give the folder of a run.")
    runs = [folder for folder in _walk(path) if folder.is_run or folder.evaluations]
    _attach_evaluations(runs)
    runs = [run for run in runs if run.is_run]
    has_others = any(run.events or run.progress or run.monitors for run in runs)
    return [run for run in runs if not (has_others and run.offline)]  # W&B's copy of a log that is there


def holds_logs(path: Path) -> bool:
    """Return whether there is a log of another library at a path."""
    try:
        return bool(find_runs(path))
    except RequestError:
        return False


def _single_file(path: Path) -> RunFolder:
    run = RunFolder(path.parent, path.stem)
    run.add(path)
    if not run.is_run and path.suffix == ".csv":
        run.tables.append(path)
    if not run.is_run:
        raise RequestError(
            "log",
            f"{path} is no log that is known (event file, progress.csv, monitor.csv, .wandb, or a CSV export).",
            "Give the folder of a run, or one of these files.",
        )
    return run


def _walk(root: Path) -> list[RunFolder]:
    """Return every folder below the root with its log files; folders of our own runs and hidden ones are left out."""
    results, entries = [], 0
    for place, folders, files in os.walk(root, followlinks=False):
        entries += len(folders) + len(files)
        if entries > MOST_ENTRIES:
            raise RequestError(
                "log", f"{root} holds more than {MOST_ENTRIES:,} files and folders.", "Give the folder of the runs."
            )
        folder = Path(place)
        depth = len(folder.relative_to(root).parts)
        if OUR_RUN in files or depth >= DEEPEST:
            folders.clear()
            if OUR_RUN in files:
                continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        run = RunFolder(folder, _name_of(folder, root))
        for name in sorted(files):
            run.add(folder / name)
        results.append(run)
    return results


def _name_of(folder: Path, root: Path) -> str:
    home = folder.parent if folder.name in SUBFOLDERS and folder != root else folder
    parts = home.relative_to(root).parts if home != root else (root.resolve().name,)
    return printable("_".join(parts)) or "run"


def _attach_evaluations(runs: list[RunFolder]) -> None:
    """Give evaluations in a folder of their own to the run in the folder above."""
    by_folder = {run.folder: run for run in runs if run.is_run}
    for run in runs:
        parent = by_folder.get(run.folder.parent)
        if not run.is_run and parent is not None and not parent.evaluations:
            parent.evaluations += run.evaluations
