"""Power loss: only what was synced is certain to be on the disk; then resume.

The model is that of a journaling file system on a disk that does not lie: an fsync makes the data of its file and all
earlier changes of names durable. Of what came later, the names may or may not have reached the disk, and of the
data any prefix.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

from chaos.arena import SCENARIOS, Arena
from chaos.commands import run_here
from chaos.events import FileEvents
from chaos.faults import Finding, kind
from chaos.judge import judge_resume, must_resume
from chaos.trees import Tree, read_tree, write_tree


class Disk:
    """What is certain to be on the disk: names as of the last fsync, and per inode the synced data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, int] = {}
        self.synced: dict[int, bytes] = {}

    def sync(self, handle: Any) -> None:
        """Record an fsync, which has just returned."""
        number = handle if isinstance(handle, int) else handle.fileno()
        inode = os.fstat(number).st_ino
        self.names = _names(self.folder)
        for name, known in self.names.items():
            if known == inode:
                self.synced[inode] = (self.folder / name).read_bytes()

    def after_power_loss(self, rng: random.Random) -> Tree:
        """Return the files that a restarted machine finds."""
        now = _names(self.folder)
        written = {inode: (self.folder / name).read_bytes() for name, inode in now.items()}
        names = rng.choice([self.names, now])
        return {name: self._content(inode, written, rng) for name, inode in names.items()}

    def _content(self, inode: int, written: dict[int, bytes], rng: random.Random) -> bytes:
        synced = self.synced.get(inode, b"")
        rest = written.get(inode, b"")
        if not rest.startswith(synced):
            return rng.choice([synced, rest])
        return rest[: rng.choice([len(synced), rng.randint(len(synced), len(rest))])]


def _names(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_ino for path in folder.rglob("*") if path.is_file()}


@kind("powerloss", 60, short=4)
def lose_power(arena: Arena, rng: random.Random) -> Finding:
    reference = arena.run(rng.choice(list(SCENARIOS)))
    moment = rng.randrange(reference.events)
    with arena.scratch() as folder:
        write_tree(folder / "run", _train_until(reference.command, folder / "before", moment, rng))
        before = read_tree(folder / "run")
        fault = f"{reference.scenario} run: power lost before file event {moment} of {reference.events}; resume"
        result = run_here(reference.command(folder / "run", "--resume"))
        return must_resume(judge_resume(reference.done, folder / "run", before, result, fault))


def _train_until(command: Any, run: Path, moment: int, rng: random.Random) -> Tree:
    """Train undisturbed, and return what the disk would hold had the power failed at a file event."""
    disk, left = Disk(run), moment
    tree: Tree | None = None

    def on_event() -> None:
        nonlocal left, tree
        if left == 0:
            tree = disk.after_power_loss(rng)
        left -= 1

    with FileEvents(run, on_event):
        counted = os.fsync

        def fsync(handle: Any) -> None:
            counted(handle)
            disk.sync(handle)

        os.fsync = fsync
        run_here(command(run))
    return disk.after_power_loss(rng) if tree is None else tree
