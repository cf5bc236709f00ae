"""The undisturbed runs and studies that faults are compared with, made once by the first fault that needs them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from chaos.commands import Result, run_child, run_here
from chaos.events import FileEvents
from chaos.trees import copy_tree, rows_of

SIZES = ("--num-envs", "4", "--total-timesteps", "384", "--log-every", "1", "--checkpoint-every", "3",
         "--hidden-sizes", "8")  # fmt: skip
ON_POLICY = (*SIZES, "--num-steps", "8", "--num-epochs", "1")
REPLAY = (*SIZES, "--steps-per-iteration", "32", "--train-batches", "2", "--transition-batch-size", "16",
          "--learning-starts", "64", "--buffer-size", "1024")  # fmt: skip
# scenario → flags of `train`; 12 updates, a row per update, checkpoints at 3, 6, 9, 12
SCENARIOS: dict[str, tuple[str, ...]] = {
    "functional": ("--env", "CartPole-v1", *ON_POLICY),
    "host": ("--env", "gymnasium:CartPole-v1", *ON_POLICY),
    "sac": ("--env", "Pendulum-v1", "--algo", "sac", *REPLAY),
    "rrd": ("--env", "gymnasium:Pendulum-v1", "--env-kwargs", "max_episode_steps=20", "--algo", "rrd",
            "--rrd-batch-size", "32", "--rrd-sample-size", "8",
            *REPLAY),
}  # fmt: skip
HALF, COVERED = 8, 6  # a half-finished run has the rows 1…8, and checkpoints at 3 and 6
STUDY = """\
title: Chaos
env: CartPole-v1
fixed: {num_steps: 8, num_epochs: 1, hidden_sizes: [8], total_timesteps: 384, checkpoint_every: 3}
grid: {num_envs: [4, 8]}
seeds: 2
evaluate_every: 32
"""
PROBED_STUDY = STUDY.replace("[4, 8]", "[4]").replace("seeds: 2", "seeds: 1") + "probe: {at: [1.0], num_envs: 32}\n"


@dataclass(frozen=True)
class ReferenceRun:
    """An undisturbed run: finished, half finished (as a kill leaves it), and its number of file events."""

    scenario: str
    flags: tuple[str, ...]
    folder: Path

    @property
    def done(self) -> Path:
        return self.folder / "done"

    @property
    def half(self) -> Path:
        return self.folder / "half"

    @cached_property
    def events(self) -> int:
        return int((self.folder / "events").read_text())

    def command(self, out: Path, *more: str) -> list[str]:
        """Return the command line that trains (or, with --resume, continues) this run in a folder."""
        return ["train", *self.flags, "--out", str(out), "--json", *more]


@dataclass(frozen=True)
class ReferenceStudy:
    """An undisturbed study and its file."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "chaos.yaml"

    @property
    def done(self) -> Path:
        return self.folder / "done"

    def command(self, out: Path, *more: str) -> list[str]:
        return ["study", str(self.file), "--out", str(out), "--jobs", "2", "--json", *more]


class Arena:
    """A folder with the references, and a scratch folder per fault."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield an empty folder and remove it, also from under a full disk that is still mounted there."""
        folder = Path(tempfile.mkdtemp(prefix="fault-", dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def run(self, scenario: str) -> ReferenceRun:
        """Return the undisturbed run of a scenario."""
        reference = ReferenceRun(scenario, SCENARIOS[scenario], self.folder / scenario)
        self._make_once(reference.folder, lambda folder: _make_run(ReferenceRun(scenario, reference.flags, folder)))
        return reference

    def study(self, *, probed: bool = False) -> ReferenceStudy:
        """Return an undisturbed study: 2 shapes × 2 seeds, or with `probed` one trial and its probe."""
        reference = ReferenceStudy(self.folder / ("probed-study" if probed else "study"))
        self._make_once(reference.folder, lambda folder: _make_study(ReferenceStudy(folder), probed))
        return reference

    def answer(self, name: str, make: Callable[[], str]) -> str:
        """Return a text that is computed once, such as the output of `eval` on an undamaged run."""
        folder = self.folder / "answers" / name
        self._make_once(folder, lambda folder: (folder / "text").write_text(make()))
        return (folder / "text").read_text()

    def _make_once(self, folder: Path, make: Callable[[Path], object]) -> None:
        """Make a folder under another name and rename it, under a lock: several processes share an arena."""
        if folder.exists():
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(folder.with_name(f"{folder.name}.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                unfinished = folder.with_name(f"{folder.name}.making")
                shutil.rmtree(unfinished, ignore_errors=True)
                unfinished.mkdir()
                make(unfinished)
                unfinished.rename(folder)


def _make_run(reference: ReferenceRun) -> None:
    """Train; the half-finished run is a copy of the directory at the first file event after row 8."""
    events = 0

    def on_event() -> None:
        nonlocal events
        events += 1
        metrics = reference.done / "metrics.jsonl"
        if metrics.exists() and not reference.half.exists() and len(rows_of(metrics.read_bytes())) == HALF:
            copy_tree(reference.done, reference.half)

    with FileEvents(reference.done, on_event):
        _check(run_here(reference.command(reference.done)))
    (reference.folder / "events").write_text(str(events))


def _make_study(reference: ReferenceStudy, probed: bool) -> None:
    reference.file.write_text(PROBED_STUDY if probed else STUDY)
    _check(run_child(reference.command(reference.done)))


def _check(result: Result) -> None:
    if result.code != 0:
        raise RuntimeError(f"the undisturbed run failed: {json.dumps(result.argv)}\n{result.err}{result.exception}")


def default_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="rollshape-chaos-", dir=os.environ.get("TMPDIR")))
