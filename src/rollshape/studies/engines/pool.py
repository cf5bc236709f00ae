"""The loop that all engines share: long-lived workers take trials, those of one shape by preference.

A worker that dies takes nothing with it: its trial is tried once more on a fresh one, and then it has failed. A trial
that another process is running is asked for again until it has ended.
"""

from __future__ import annotations

import queue
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rollshape.studies.store import Result, Store
from rollshape.studies.trials import Trial

ATTEMPTS = 2
ASK_AGAIN = 1.0  # seconds until a trial of another process is asked for again


@dataclass(frozen=True)
class Event:
    """What a worker tells: it began, it has a row of metrics, it ended; another process has the trial; it died."""

    kind: Literal["begin", "row", "end", "taken", "retry", "died"]
    trial: str
    row: dict[str, Any] | None = None
    result: Result | None = None
    reason: str = ""


class Worker(Protocol):
    """Takes one trial at a time; what becomes of it is put on the queue that it was made with, under its number."""

    def assign(self, trial: Trial, failures: int) -> None: ...

    def interrupt(self) -> None:
        """Ask it to save what it does and to end."""

    def close(self) -> None:
        """No more trials: it ends when it is idle."""

    def kill(self) -> None: ...


Told = queue.Queue[tuple[int, Event]]
Hire = Callable[[int, Told], Worker]
Watch = Callable[[Event], None]


class Agenda:
    """The trials that are left, dealt so that a worker stays with a shape, no two start on the same one, and no two
    probe at once: what the first compiles for it the second finds in the cache."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self.left = list(trials)
        self.later: list[tuple[float, Trial]] = []

    def __bool__(self) -> bool:
        return bool(self.left or self.later)

    def postpone(self, trial: Trial) -> None:
        self.later.append((time.monotonic() + ASK_AGAIN, trial))

    def deal(self, last_group: str, others: set[str], probing: bool = False) -> Trial | None:
        """The next trial for a worker whose last one was of `last_group`, while the others are at theirs, one of them
        `probing` it."""
        due = [entry for entry in self.later if entry[0] <= time.monotonic()]
        if not self.left and not due:
            return None
        if not self.left:
            self.later.remove(due[0])
            return due[0][1]
        many = Counter(trial.group for trial in self.left)
        best = max(
            self.left,
            key=lambda trial: (
                trial.group == last_group,
                trial.group not in others,
                many[trial.group],
                not (probing and trial.probe_at),
            ),
        )
        self.left.remove(best)
        return best


@dataclass
class _Post:
    """A worker's place: who holds it, what it does, and of which shape its last trial was."""

    worker: Worker | None = None
    trial: Trial | None = None
    group: str = ""


def run_pool(store: Store, trials: Sequence[Trial], count: int, hire: Hire, watch: Watch) -> None:
    """Run all trials on `count` workers. KeyboardInterrupt lets each save its state, and then goes on its way."""
    agenda, told, known = Agenda(trials), Told(), store.progress()
    failures = {trial.id: known[trial.id].failures if trial.id in known else 0 for trial in trials}
    posts, deaths = [_Post() for _ in range(min(count, len(trials)))], Counter[str]()
    try:
        while agenda or any(post.trial for post in posts):
            for number, post in enumerate(posts):
                if post.trial is None:
                    _give(agenda, posts, number, hire, told, failures)
            try:
                number, event = told.get(timeout=ASK_AGAIN / 4)
            except queue.Empty:
                continue
            _hear(store, agenda, posts[number], event, deaths, watch)
    except KeyboardInterrupt:
        _wind_up(posts, told)
        raise
    finally:
        for post in posts:
            if post.worker is not None:
                post.worker.close() if post.trial is None else post.worker.kill()


def _give(agenda: Agenda, posts: list[_Post], number: int, hire: Hire, told: Told, failures: dict[str, int]) -> None:
    post = posts[number]
    others = [other.trial for other in posts if other is not post and other.trial is not None]
    trial = agenda.deal(post.group, {other.group for other in others}, any(other.probe_at for other in others))
    if trial is None:
        return
    if post.worker is None:
        post.worker = hire(number, told)
    post.trial, post.group = trial, trial.group
    post.worker.assign(trial, failures[trial.id])


def _hear(store: Store, agenda: Agenda, post: _Post, event: Event, deaths: Counter[str], watch: Watch) -> None:
    trial = post.trial
    if event.kind == "died":
        post.worker = post.trial = None
        if trial is not None:
            deaths[trial.id] += 1
            watch(_buried(store, agenda, trial, event.reason, deaths[trial.id]))
        return
    if trial is None or event.trial != trial.id:  # the last word of a worker that was let go
        return
    if event.kind in ("end", "taken"):
        post.trial = None
    if event.kind == "taken":
        agenda.postpone(trial)
    watch(event)


def _buried(store: Store, agenda: Agenda, trial: Trial, reason: str, deaths: int) -> Event:
    """A dead worker's trial: once more, or failed."""
    if deaths < ATTEMPTS:
        agenda.left.insert(0, trial)
        return Event("retry", trial.id, reason=reason)
    claim = store.claim(trial.id)
    if claim is None:  # another process has taken it over
        agenda.postpone(trial)
        return Event("taken", trial.id)
    with claim:
        result = Result("failed", "worker died", f"its worker died {deaths} times, the last time {reason}")
        store.ends(trial.id, result)
    return Event("end", trial.id, result=result)


def _wind_up(posts: list[_Post], told: Told) -> None:
    """Wait until every busy worker has saved its trial; a second KeyboardInterrupt ends the wait."""
    busy = {number for number, post in enumerate(posts) if post.trial is not None}
    for number in busy:
        worker = posts[number].worker
        if worker is not None:
            worker.interrupt()
    while busy:
        number, event = told.get()
        if event.kind in ("end", "taken", "died"):
            posts[number].trial = None
            if event.kind == "died":
                posts[number].worker = None
            busy.discard(number)
