"""Records a run while another library trains it: the shared part of all integrations. Imports neither JAX nor torch.

An integration calls `start` with what it knows about the run, `rollout` when a rollout was collected, and `update` when
the library has trained on it. Training is never changed and never ended by an error of ours: `call` turns the first
one into a warning, after which nothing is recorded.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rollshape.errors import RollshapeError
from rollshape.integrations.description import RunDescription
from rollshape.integrations.findings import Findings
from rollshape.integrations.measurement import NotMeasurable
from rollshape.integrations.rollout import EpisodeTracker, RecordedRollout, rollout_metrics
from rollshape.integrations.update_log import UpdateLog
from rollshape.integrations.writer import RunWriter, Status

if TYPE_CHECKING:
    from rollshape.integrations.lab_part import Subject

Result = TypeVar("Result")
SHARE = 0.03  # of the wall time that the gradient lab may take
FIRST_MEASUREMENT = 3.0  # seconds of training before the first measurement, unless `every` is given
FIRST_SLOW_MEASUREMENT = 300.0  # of a policy whose scores are computed by autodiff, one backward pass per step


@dataclass
class Schedule:
    """Decides which rollouts the gradient lab measures.

    With `every` = k it is every k-th one, 0 none. Otherwise a rollout is measured as soon as all measurements, and one
    more as long as the last, fit into a share of the wall time.
    """

    every: int | None = None
    spent: float = 0.0
    last: float = 0.0

    def is_due(self, update: int, elapsed: float, is_slow: bool = False) -> bool:
        if self.every is not None:
            return self.every > 0 and (update - 1) % self.every == 0
        first = FIRST_SLOW_MEASUREMENT if is_slow else FIRST_MEASUREMENT
        return elapsed >= first and self.spent + self.last <= SHARE * elapsed

    def add(self, seconds: float) -> None:
        self.spent, self.last = self.spent + seconds, seconds


class Recorder:
    """One run that is being recorded.

    Args:
        path: the run directory. If it holds a run already, a number is appended to its name.
        every: measure the gradient in every k-th rollout; 0: never; None: so that it takes at most 3 % of the time.
        quiet: no lines about findings on stderr.
    """

    def __init__(self, path: str | Path, every: int | None = None, quiet: bool = False) -> None:
        self.path = Path(path)
        self.log = UpdateLog()  # minibatches of the current update
        self._schedule, self._quiet = Schedule(every), quiet
        self._writer: RunWriter | None = None
        self._is_active = os.environ.get("RANK", "0") == "0"  # of several data-parallel processes the first one records
        self._process = os.getpid()
        self._updates, self._timesteps = 0, 0
        self._row: dict[str, Any] = {}
        self._lab: Any = None
        self._can_measure = True
        self._recorded = 0  # timesteps in the rows so far

    def call(self, action: Callable[..., Result], *args: Any, **options: Any) -> Result | None:
        """Call a part of an integration; the first error is a warning and ends the recording, not the training."""
        if not self._is_active:
            return None
        try:
            return action(*args, **options)
        except Exception as error:
            self._is_active = False
            text = _describe(error)
            _warn(f"Rollshape stopped recording {self.path}: {text}")
            self._close("interrupted", f"Recording stopped: {text}")
            return None

    def start(self, description: RunDescription, horizon: int | None = None) -> None:
        """Create the run directory; `horizon` is the time limit of the environment, if it is known."""
        self._writer = self._open(description)
        self._plan = description.plan
        self._findings, self._tracker = Findings(description.plan), EpisodeTracker(horizon)
        self._clip_range = description.settings.get("clip_range")
        self._start = self._last = time.perf_counter()
        atexit.register(self.end, "interrupted")  # has no effect on a run that has ended

    def _open(self, description: RunDescription) -> RunWriter:
        wanted, number = self.path, 1
        while any((self.path / name).exists() for name in ("run.json", "metrics.jsonl")):
            number += 1
            self.path = wanted.with_name(f"{wanted.name}-{number}")
        if number > 1:
            _warn(f"{wanted} holds a run already; recording in {self.path}.")
        return RunWriter(self.path, description)

    def rollout(
        self, rollout: RecordedRollout, subject: Callable[[], Subject] | None = None, is_slow: bool = False
    ) -> None:
        """Record a rollout before the library trains on it, and measure its gradient if it is due.

        Measuring a recurrent policy `is_slow`.
        """
        self._updates += 1
        self._timesteps += rollout.rewards.size
        self.log = UpdateLog()
        self._row = {"update": self._updates, "timesteps": self._timesteps, **rollout_metrics(rollout, self._tracker)}
        elapsed = time.perf_counter() - self._start
        if subject is not None and self._can_measure and self._schedule.is_due(self._updates, elapsed, is_slow):
            begin = time.perf_counter()
            self._measure(rollout, subject)
            self._schedule.add(time.perf_counter() - begin)

    def _measure(self, rollout: RecordedRollout, subject: Callable[[], Subject]) -> None:
        """Measure the gradient; if that fails, warn once and go on without."""
        try:
            from rollshape.integrations.lab import Lab

            self._lab = self._lab or Lab()
            measurement = self._lab.measure(
                rollout, subject(), update=self._updates, timesteps=self._timesteps,
                minibatch_size=self._plan.minibatch_size,
            )  # fmt: skip
            measurement.save(self.path)
            self._row |= measurement.columns()
        except Exception as error:
            reason = str(error) if isinstance(error, NotMeasurable) else _describe(error)
            self._require_writer().note(f"Update {self._updates}: the gradient was not measured: {reason}.")
            if not getattr(error, "is_temporary", False):
                self._can_measure = False
                _warn(f"Rollshape does not measure the gradient of {self.path}: {reason}.")

    def update(self, values: Mapping[str, Any] | None = None) -> None:
        """Write the row of an update that has ended; `values` take precedence over what the minibatches show."""
        if not self._row:
            return
        now = time.perf_counter()
        given = {name: value for name, value in (values or {}).items() if value is not None}
        row = {
            **self._row,
            **self.log.metrics(self._clip_range),
            **given,
            "wall_time": now - self._start,
            "sps": (self._timesteps - self._recorded) / (now - self._last),
        }
        self._last, self._recorded, self._row = now, self._timesteps, {}
        self._require_writer().append(row)
        line = self._findings.check(row, self._tracker.longest)
        if line is not None and not self._quiet:
            print(f"rollshape: {line}", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        self._require_writer().note(text)

    def end(self, status: Status = "done") -> None:
        """Write how the run ended; only the first call has an effect, and none in a child process."""
        if self._is_active and os.getpid() == self._process:
            self.call(self._close, status)
        self._is_active = False

    def _close(self, status: Status, note: str | None = None) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            if note is not None:
                writer.note(note)
            writer.end(status, timesteps=self._timesteps)
        except Exception as error:
            _warn(f"Rollshape could not finish {self.path}: {_describe(error)}")

    def _require_writer(self) -> RunWriter:
        if self._writer is None:
            raise RuntimeError("the recording has not started")
        return self._writer


def _describe(error: Exception) -> str:
    return f"{error.message} {error.fix}" if isinstance(error, RollshapeError) else f"{type(error).__name__}: {error}"


def _warn(text: str) -> None:
    """Warn once; where warnings are errors, write a line instead: training goes on in any case."""
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    except RuntimeWarning:
        print(text, file=sys.stderr, flush=True)
