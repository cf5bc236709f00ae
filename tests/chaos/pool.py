"""Worker processes: one injects many faults, sharing compiled programs; one that dies or hangs is replaced."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from chaos.commands import child_environment, kill_session
from chaos.faults import Outcome, Verdict

FAULTS_PER_WORKER = 120  # then a new process: compiled programs add up
TIMEOUT = 300.0  # seconds without an outcome

Fault = tuple[str, int]


def run_pool(faults: Sequence[Fault], arena: Path, jobs: int, on_outcome: Callable[[Outcome], None]) -> list[Outcome]:
    """Inject all faults and return their outcomes, in the order in which they ended."""
    todo: queue.SimpleQueue[Fault] = queue.SimpleQueue()
    for fault in faults:
        todo.put(fault)
    outcomes: list[Outcome] = []

    def record(outcome: Outcome) -> None:
        outcomes.append(outcome)
        on_outcome(outcome)

    threads = [threading.Thread(target=_serve, args=(todo, arena, record)) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def _serve(todo: queue.SimpleQueue[Fault], arena: Path, record: Callable[[Outcome], None]) -> None:
    """Feed one worker after another until no fault is left."""
    worker: _Worker | None = None
    while True:
        try:
            fault = todo.get_nowait()
        except queue.Empty:
            break
        worker = worker or _Worker(arena)
        outcome = worker.inject(fault)
        record(outcome)
        if worker.is_dead or worker.count >= FAULTS_PER_WORKER:
            worker.close()
            worker = None
    if worker is not None:
        worker.close()


class _Worker:
    """A process that reads (kind, seed) and writes outcomes, as lines of JSON."""

    def __init__(self, arena: Path) -> None:
        self.count, self.is_dead = 0, False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "chaos", "--worker", "--arena", str(arena)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=child_environment(), text=True, start_new_session=True,
        )  # fmt: skip

    def inject(self, fault: Fault) -> Outcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.count += 1
        watchdog = threading.Timer(TIMEOUT, lambda: kill_session(self._process))
        watchdog.start()
        try:
            self._process.stdin.write(json.dumps(fault) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        watchdog.cancel()
        if line:
            return Outcome.from_dict(json.loads(line))
        self.is_dead = True
        code = self._process.wait()
        detail = f"the process that injected it ended with exit code {code}" + (f" after {TIMEOUT:g} s" * (code == -9))
        return Outcome(*fault, Verdict.TRACEBACK, "(not known)", detail, 0.0)

    def close(self) -> None:
        assert self._process.stdin is not None
        if not self.is_dead:
            self._process.stdin.close()
        self._process.wait()
