"""The local engine: one single-threaded worker process per core, each pinned to its core.

Small networks cannot use a second thread: two such workers together make about twice the steps of one process with two
threads.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rollshape.errors import RequestError
from rollshape.formatting import format_bytes
from rollshape.geometry.machine import available_memory, machine
from rollshape.studies.engines.pool import Engine, EngineOptions, EventQueue, NextTrials, Worker, run_pool
from rollshape.studies.events import Event, OnEvent
from rollshape.studies.metrics import MetricsRow
from rollshape.studies.store import Store, TrialResult
from rollshape.studies.trial_runner import Assignment
from rollshape.studies.trials import Trial

WORKER = "rollshape.studies.engines.worker"  # the module that a worker process runs
XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false"
ONE_THREAD = {
    "NPROC": "1",  # the size of XLA's thread pool
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def check(options: EngineOptions) -> None:
    """Refuse a cluster's address."""
    if options.address is not None:
        raise RequestError("contradiction", "--address is the address of a Ray cluster.", "Add --engine ray.")


def run(
    store: Store, trials: Sequence[Trial], options: EngineOptions, on_event: OnEvent, next_trials: NextTrials
) -> None:
    """Run the trials on worker processes, by default one per core, or as many as the available memory allows."""
    count = count_workers(options, len(trials), on_event)
    cores = least_pinned_cores(count)

    def start_worker(number: int, events: EventQueue) -> Worker:
        return LocalWorker((WORKER, str(store.path)), number, cores[number], events)

    run_pool(store, trials, count, start_worker, on_event, next_trials)


ENGINE = Engine(check, run)


def count_workers(options: EngineOptions, num_trials: int, on_event: OnEvent) -> int:
    """Return the number of workers: as requested, or one per core that fits into the available memory.

    A note reports workers that do not fit.
    """
    count, available = min(options.jobs or machine().cores, num_trials), available_memory()
    if available is None or count * options.peak_bytes <= available:
        return count
    fitting = max(1, available // options.peak_bytes)
    need = (
        f"{count} {'worker needs' if count == 1 else 'workers need'} up to {format_bytes(count * options.peak_bytes)} "
        f"of memory, {format_bytes(available)} are available."
    )
    if options.jobs is not None or fitting == count:
        advice = f"--jobs {fitting} needs {format_bytes(fitting * options.peak_bytes)}." if fitting < count else ""
        on_event(Event("note", "", reason=f"{need} {advice}".strip()))
        return count
    on_event(Event("note", "", reason=f"{need} Only {fitting} of them will be started."))
    return fitting


def least_pinned_cores(count: int) -> list[int]:
    """Return a core per worker; cores to which the fewest processes (of other studies, say) are pinned come first."""
    import psutil

    if not hasattr(os, "sched_getaffinity"):
        return [0] * count
    available = sorted(os.sched_getaffinity(0))
    pinned = Counter[int]()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            cores = process.cpu_affinity()
            if len(cores) == 1:
                pinned.update(cores)
    available.sort(key=lambda core: pinned[core])
    return [available[i % len(available)] for i in range(count)]


def one_thread_environment() -> dict[str, str]:
    """Return variables that limit JAX and BLAS to one thread, for a process that has imported neither."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} {XLA_FLAGS}".strip()
    return {**ONE_THREAD, "XLA_FLAGS": flags}


def import_path() -> list[str]:
    """Return the folders from which this process imports, for `extend_import_path` in a worker."""
    return [os.path.abspath(folder) for folder in sys.path]


def extend_import_path(folders: Sequence[str]) -> None:
    """Import from these folders what is not installed: an environment, but no `equinox.py` of the current directory.

    A worker starts without the current directory on its path (`-P`), and these folders come last.
    """
    sys.path.extend(folder for folder in folders if folder not in sys.path)


class LocalWorker:
    """A worker process, and a thread that reads its events. `program` is the module that it runs, and its argument."""

    def __init__(self, program: tuple[str, str], number: int, core: int, events: EventQueue) -> None:
        self._number, self._events = number, events
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", *program, str(core), *import_path()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            env={**os.environ, **one_thread_environment()},
            start_new_session=True,  # Ctrl-C reaches the command first
        )
        self._reader = threading.Thread(target=self._read_events, daemon=True)
        self._reader.start()

    def assign(self, assignment: Assignment) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # the reader reports its death
            self._process.stdin.write(json.dumps(assignment.to_dict()) + "\n")
            self._process.stdin.flush()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        self._close_stdin()
        self._reader.join()

    def kill(self) -> None:
        self._process.kill()
        self._reader.join()

    def _close_stdin(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                with contextlib.suppress(ValueError):  # an incomplete line of a killed process
                    self._events.put((self._number, event_from_dict(json.loads(line))))
        code = self._process.wait()
        self._close_stdin()
        with self._stderr:
            self._events.put((self._number, Event("died", "", reason=self._describe_exit(code))))

    def _describe_exit(self, code: int) -> str:
        if code == -signal.SIGKILL:
            return "by SIGKILL (the kernel kills the largest process when memory runs out)"
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        cause = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return f"{cause}: {lines[-1][:300]}" if lines else cause


def event_to_dict(event: Event) -> dict[str, Any]:
    """Return an event as a worker process writes it: a line of JSON."""
    row, result = event.row, event.result
    return {
        "kind": event.kind,
        "trial": event.trial,
        "row": None if row is None else dict(row.values),
        "result": None if result is None else vars(result),
        "reason": event.reason,
    }


def event_from_dict(values: Mapping[str, Any]) -> Event:
    """Return the event that `event_to_dict` wrote."""
    row, result = values["row"], values["result"]
    return Event(
        values["kind"],
        values["trial"],
        row=None if row is None else MetricsRow.from_dict(row),
        result=None if result is None else TrialResult(**result),
        reason=values["reason"],
    )
