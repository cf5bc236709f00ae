"""The folder that the server shows: which runs and studies are in it, and that nothing outside of it is read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rollshape.errors import RequestError

DEEPEST = 6  # folders below the root
MOST_FOLDERS = 20_000
FRESH_SECONDS = 2.0
_NOT_SEARCHED = frozenset({"checkpoints", "claims", "probes", "report", "tb", "wandb", "node_modules", "__pycache__"})


@dataclass(frozen=True)
class FolderContents:
    """Paths of runs and studies, relative to the root and sorted."""

    runs: tuple[str, ...]
    studies: tuple[str, ...]
    is_complete: bool  # False if there are more folders than are searched


class Folder:
    """A folder of runs. Paths of the page are relative to it, and must stay inside."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._searched: tuple[float, FolderContents] | None = None

    def path(self, name: str) -> Path:
        """Return a path inside the folder; a RequestError for one that leads out of it, also through a link."""
        try:
            path = (self.root / name).resolve()
            inside = path == self.root or self.root in path.parents
        except (OSError, ValueError, RuntimeError):  # too long, a NUL character, a loop of links
            inside = False
        if not inside:
            raise RequestError("run", "The path is outside of the folder of this page.", "Use a path of the list.")
        return path

    def contents(self) -> FolderContents:
        """Return the runs and studies, at most two seconds old."""
        now = time.monotonic()
        if self._searched is None or now - self._searched[0] > FRESH_SECONDS:
            self._searched = (now, self._search())
        return self._searched[1]

    def _search(self) -> FolderContents:
        runs, studies, count = [], [], 0
        for name, names in self._walk("", 0):
            count += 1
            if count > MOST_FOLDERS:
                break
            runs += [name] if "run.json" in names else []
            studies += [name] if "journal.jsonl" in names else []
        return FolderContents(tuple(sorted(runs)), tuple(sorted(studies)), count <= MOST_FOLDERS)

    def _walk(self, folder: str, depth: int) -> Iterator[tuple[str, set[str]]]:
        """Yield folders, relative to the root, with the names of their files; links are not followed."""
        try:
            with os.scandir(os.path.join(self.root, folder)) as entries:
                inside = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:  # vanished, or not readable
            return
        files = {name for name, is_folder in inside if not is_folder}
        yield folder or ".", files
        if depth == DEEPEST or "run.json" in files:
            return
        for name, is_folder in sorted(inside):
            if is_folder and name not in _NOT_SEARCHED and not name.startswith("."):
                yield from self._walk(f"{folder}/{name}" if folder else name, depth + 1)
