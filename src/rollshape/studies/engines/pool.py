"""The scheduling loop that all engines share: long-lived workers take trials, preferably of one shape.

If a worker dies, its trial is tried once more on a new worker and then counts as failed. A trial that another process
is running is postponed until that process has ended it.
"""

from __future__ import annotations

import queue
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from rollshape.studies.events import Event, OnEvent
from rollshape.studies.store import Store, TrialProgress, TrialResult
from rollshape.studies.trial_runner import Assignment
from rollshape.studies.trials import Trial

MAX_ATTEMPTS = 2
RETRY_SECONDS = 1.0  # until a trial that another process has is tried again


@dataclass(frozen=True)
class EngineOptions:
    """Options of all engines; an engine's `check` refuses those that it does not have."""

    jobs: int | None = None  # workers; by default one per core
    address: str | None = None  # of a cluster
    peak_bytes: int = 0  # memory of the largest trial


NextTrials = Callable[[], Sequence[Trial]]  # what to run once all trials so far have ended; none: that was all


def no_more_trials() -> Sequence[Trial]:
    return ()


@dataclass(frozen=True)
class Engine:
    """`check` raises a RequestError where the options cannot be; `run` runs the trials and reports what happens."""

    check: Callable[[EngineOptions], None]
    run: Callable[[Store, Sequence[Trial], EngineOptions, OnEvent, NextTrials], None]


class Records(Protocol):
    """Where the pool reads and records how trials ended: the `Store` of a study, or the runs of several seeds."""

    def check_exists(self) -> None:
        """Raise a RunError if the results can no longer be written."""

    def progress(self) -> Mapping[str, TrialProgress]: ...

    def lock_trial(self, trial: str) -> AbstractContextManager[Any] | None:
        """Return the lock under which a trial's end is recorded, or None while another process runs the trial."""

    def record_end(self, trial: str, result: TrialResult) -> None: ...


class Worker(Protocol):
    """Runs one trial at a time and puts its events on the queue it was started with, under its number."""

    def assign(self, assignment: Assignment) -> None: ...

    def interrupt(self) -> None:
        """Ask it to save its state and to end."""

    def close(self) -> None:
        """Let it end as soon as it is idle."""

    def kill(self) -> None: ...


EventQueue = queue.Queue[tuple[int, Event]]
StartWorker = Callable[[int, EventQueue], Worker]


class TrialQueue:
    """The trials that are left. A worker stays with one shape, and no two workers start on the same one.

    No two workers probe at the same time while there is other work: the second finds in the compilation cache what the
    first has compiled.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        self.pending = list(trials)
        self.postponed: list[tuple[float, Trial]] = []

    def __bool__(self) -> bool:
        return bool(self.pending or self.postponed)

    def postpone(self, trial: Trial) -> None:
        self.postponed.append((time.monotonic() + RETRY_SECONDS, trial))

    def take(self, last_group: str, busy_groups: set[str], is_probing: bool = False) -> Trial | None:
        """Take the next trial for a worker whose last one was of `last_group`.

        `busy_groups` are those of the other workers' trials, and `is_probing` says that one of these is to be probed.
        """
        due = [entry for entry in self.postponed if entry[0] <= time.monotonic()]
        if not self.pending and not due:
            return None
        if not self.pending:
            self.postponed.remove(due[0])
            return due[0][1]
        group_sizes = Counter(trial.group for trial in self.pending)
        best = max(
            self.pending,
            key=lambda trial: (
                trial.group == last_group,
                trial.group not in busy_groups,
                group_sizes[trial.group],
                not (is_probing and trial.probe_at),
            ),
        )
        self.pending.remove(best)
        return best


@dataclass
class WorkerSlot:
    """A place for a worker: the worker in it, its current trial, and the group of its last trial."""

    worker: Worker | None = None
    trial: Trial | None = None
    group: str = ""


def run_pool(
    records: Records,
    trials: Sequence[Trial],
    count: int,
    start_worker: StartWorker,
    on_event: OnEvent,
    next_trials: NextTrials = no_more_trials,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Run all trials on `count` workers; on KeyboardInterrupt every worker saves its state before this raises it.

    `check` is called several times per second and raises an error if no worker can work any more.
    """
    _Pool(records, trials, count, start_worker, on_event, next_trials, check).run()


class _Pool:
    def __init__(
        self,
        records: Records,
        trials: Sequence[Trial],
        count: int,
        start_worker: StartWorker,
        on_event: OnEvent,
        next_trials: NextTrials,
        check: Callable[[], None],
    ) -> None:
        self.records, self.start_worker, self.on_event, self.check = records, start_worker, on_event, check
        self.trials, self.events, self.next_trials = TrialQueue(()), EventQueue(), next_trials
        self.slots = [WorkerSlot() for _ in range(count)]  # a worker starts with its first trial
        self.deaths, self.failures = Counter[str](), dict[str, int]()
        self._add(trials)

    def _add(self, trials: Sequence[Trial]) -> bool:
        """Queue trials; return whether there are any."""
        progress = self.records.progress()
        self.failures |= {trial.id: progress[trial.id].failures if trial.id in progress else 0 for trial in trials}
        self.trials.pending += trials
        return bool(trials)

    def run(self) -> None:
        try:
            while self.trials or any(slot.trial for slot in self.slots) or self._add(self.next_trials()):
                self.records.check_exists()
                self.check()
                for number, slot in enumerate(self.slots):
                    if slot.trial is None:
                        self._assign_trial(number, slot)
                try:
                    number, event = self.events.get(timeout=RETRY_SECONDS / 4)
                except queue.Empty:
                    continue
                self._handle_event(self.slots[number], event)
        except KeyboardInterrupt:
            self._interrupt_workers()
            raise
        finally:
            for slot in self.slots:
                if slot.worker is not None:
                    slot.worker.close() if slot.trial is None else slot.worker.kill()

    def _assign_trial(self, number: int, slot: WorkerSlot) -> None:
        busy = [other.trial for other in self.slots if other is not slot and other.trial is not None]
        groups, is_probing = {trial.group for trial in busy}, any(trial.probe_at for trial in busy)
        trial = self.trials.take(slot.group, groups, is_probing)
        if trial is None:
            return
        if slot.worker is None:
            slot.worker = self.start_worker(number, self.events)
        slot.trial, slot.group = trial, trial.group
        slot.worker.assign(Assignment.of_trial(trial, self.failures[trial.id]))

    def _handle_event(self, slot: WorkerSlot, event: Event) -> None:
        trial = slot.trial
        if event.kind == "died":
            slot.worker = slot.trial = None
            if trial is not None:
                self.on_event(self._handle_death(trial, event.reason))
            return
        if trial is None or event.trial != trial.id:  # from a worker that has been replaced
            return
        if event.kind in ("end", "taken"):
            slot.trial = None
        if event.kind == "taken":
            self.trials.postpone(trial)
        self.on_event(event)

    def _handle_death(self, trial: Trial, reason: str) -> Event:
        """Try a dead worker's trial once more, or record that it failed."""
        self.deaths[trial.id] += 1
        if self.deaths[trial.id] < MAX_ATTEMPTS:
            self.trials.pending.insert(0, trial)
            return Event("retry", trial.id, reason=reason)
        lock = self.records.lock_trial(trial.id)
        if lock is None:  # another process has it now
            self.trials.postpone(trial)
            return Event("taken", trial.id)
        with lock:
            text = f"its worker died {self.deaths[trial.id]} times, the last time {reason}"
            result = TrialResult("failed", "worker died", text)
            self.records.record_end(trial.id, result)
        return Event("end", trial.id, result=result)

    def _interrupt_workers(self) -> None:
        """Wait until every busy worker has saved its trial; a second KeyboardInterrupt ends the wait."""
        busy = {number for number, slot in enumerate(self.slots) if slot.trial is not None}
        for number in busy:
            worker = self.slots[number].worker
            if worker is not None:
                worker.interrupt()
        while busy:
            number, event = self.events.get()
            if event.kind in ("end", "taken", "died"):
                self.slots[number].trial = None
                if event.kind == "died":
                    self.slots[number].worker = None
                busy.discard(number)
