"""The local engine: one single-threaded worker process a core, each pinned to its own.

Small networks leave nothing for a second thread to do: two such workers give about twice the steps of one process with
two threads.
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
from collections.abc import Sequence

from rollshape.geometry.machine import machine
from rollshape.studies.engines.pool import Event, Told, Watch, Worker, run_pool
from rollshape.studies.store import Result, Store
from rollshape.studies.trials import Trial

XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false"
ONE_THREAD = {
    "NPROC": "1",  # the size of XLA's own pool of threads
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def run(store: Store, trials: Sequence[Trial], jobs: int | None, watch: Watch) -> None:
    """Run the trials on `jobs` workers, by default as many as there are cores."""
    count = jobs or machine().cores
    cores = quiet_cores(count)

    def hire(number: int, told: Told) -> Worker:
        return LocalWorker(store, number, cores[number], told)

    run_pool(store, trials, count, hire, watch)


def quiet_cores(count: int) -> list[int]:
    """So many cores, those first to which the fewest processes are pinned (another study's workers, say)."""
    import psutil

    if not hasattr(os, "sched_getaffinity"):
        return [0] * count
    own = sorted(os.sched_getaffinity(0))
    pinned = Counter[int]()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            cores = process.cpu_affinity()
            if len(cores) == 1:
                pinned.update(cores)
    own.sort(key=lambda core: pinned[core])
    return [own[i % len(own)] for i in range(count)]


def one_thread_environment() -> dict[str, str]:
    """Environment variables of a process whose JAX and BLAS use one thread; they count before the first import."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} {XLA_FLAGS}".strip()
    return {**ONE_THREAD, "XLA_FLAGS": flags}


class LocalWorker:
    """A worker process and the thread that listens to it."""

    def __init__(self, store: Store, number: int, core: int, told: Told) -> None:
        self._number, self._told = number, told
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rollshape.studies.engines.worker", str(store.path), str(core)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **one_thread_environment()},
            start_new_session=True,  # Ctrl-C reaches the study first
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def assign(self, trial: Trial, failures: int) -> None:
        order = {"trial": trial.id, "spec": trial.spec.to_dict(), "failures": failures, "probe_at": trial.probe_at,
                 "probe_envs": trial.probe_envs}  # fmt: skip
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # its death is told by the listener
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        self._hang_up()
        self._listener.join()

    def kill(self) -> None:
        self._process.kill()
        self._listener.join()

    def _hang_up(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as said:
            for line in said:
                with contextlib.suppress(ValueError):  # a line that its death cut off
                    self._told.put((self._number, _event(json.loads(line))))
        code = self._process.wait()
        self._hang_up()
        with self._errors:
            self._told.put((self._number, Event("died", "", reason=self._last_words(code))))

    def _last_words(self, code: int) -> str:
        if code == -signal.SIGKILL:
            return "by SIGKILL (so the kernel ends the largest process when memory runs out)"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return f"{how}: {lines[-1][:300]}" if lines else how


def _event(message: dict[str, object]) -> Event:
    result = message.pop("result", None)
    return Event(**message, result=Result(**result) if isinstance(result, dict) else None)  # type: ignore[arg-type]
