"""The Ray engine: the same trials on the machines of a cluster, with bit-identical results.

Every worker is an actor with one CPU and the memory of the study's largest trial. It trains in a temporary folder on
its machine and returns the run directory, so the machines share nothing but Ray; Rollshape must be installed on each.
Locks and the journal stay with the process that was started. If a worker dies, its trial starts on another one: from
its last pause, else from scratch.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rollshape.errors import RequestError
from rollshape.files import disk_errors, write_bytes
from rollshape.processes import SAFE_PATH
from rollshape.studies.engines.local import extend_import_path, import_path, one_thread_environment
from rollshape.studies.engines.pool import Engine, EngineOptions, EventQueue, NextTrials, Worker, run_pool
from rollshape.studies.engines.ray_cluster import Cluster, connected
from rollshape.studies.events import Event, OnEvent
from rollshape.studies.journal import RESUME_STUDY
from rollshape.studies.metrics import MetricsRow
from rollshape.studies.store import Store, TrialResult
from rollshape.studies.trial_probes import probe_trial
from rollshape.studies.trial_runner import Assignment, run_trial, train_trial
from rollshape.studies.trials import Trial

POLL_SECONDS = 0.5


def check(options: EngineOptions) -> None:  # noqa: ARG001 (the signature of every engine)
    """Refuse to start where Ray is not installed."""
    if find_spec("ray") is None:
        raise RequestError("study", "Ray is not installed.", "pip install 'rollshape[ray]'")


def run(
    store: Store, trials: Sequence[Trial], options: EngineOptions, on_event: OnEvent, next_trials: NextTrials
) -> None:
    """Run the trials on actors of a cluster, by default one per CPU."""
    with connected(options.address) as cluster:
        ray = cluster.ray
        actor = ray.remote(
            num_cpus=1,
            memory=options.peak_bytes,
            max_restarts=0,
            max_concurrency=2,  # one call trains, the other returns the latest row
            runtime_env={"env_vars": one_thread_environment() | SAFE_PATH},
        )(RemoteTrainer)
        count = options.jobs or int(ray.cluster_resources().get("CPU", 1))

        def start_worker(number: int, events: EventQueue) -> Worker:
            return RayWorker(cluster, store, number, actor.remote(os.getcwd(), import_path()), events)

        run_pool(store, trials, count, start_worker, on_event, next_trials, cluster.check)


ENGINE = Engine(check, run)


class RemoteTrainer:
    """The actor on the cluster: trains one trial at a time and returns its run directory."""

    def __init__(self, folder: str, import_folders: Sequence[str]) -> None:
        """`folder` is where the study was started: an environment may read files there if the machine has it."""
        with contextlib.suppress(OSError):
            os.chdir(folder)
        extend_import_path(import_folders)
        self._row: MetricsRow | None = None

    def latest_row(self) -> MetricsRow | None:
        return self._row

    def train(
        self, assignment: Assignment, files: Mapping[str, bytes]
    ) -> tuple[TrialResult, dict[str, bytes], dict[float, dict[str, Any]]]:
        """Train on from the `files` of a run that has paused, or from the start.

        Returns (result, files of the run directory by relative path, documents of probes by share of the run).
        """
        self._row = None
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch) / "run"
            unpack_run(files, out)
            result = train_trial(assignment, out, self._set_row)
            probes = (
                dict(probe_trial(out, assignment.probe_at, assignment.probe_envs)) if result.state == "done" else {}
            )
            return result, pack_run(out), probes

    def _set_row(self, row: MetricsRow) -> None:
        self._row = row


class RayWorker:
    """An actor, and for each of its trials a local thread that waits for it."""

    def __init__(self, cluster: Cluster, store: Store, number: int, actor: Any, events: EventQueue) -> None:
        self._cluster, self._store, self._number, self._actor, self._events = cluster, store, number, actor, events

    def assign(self, assignment: Assignment) -> None:
        self._cluster.start_thread(partial(self._run, assignment))

    def interrupt(self) -> None:
        """Wait for nothing: the trial starts over, and the actor ends when the study disconnects."""
        self._put(Event("died", ""))

    def close(self) -> None:
        """Leave the actor to the end of the study, as in `interrupt`: a lost cluster would not answer."""

    def kill(self) -> None:
        self.close()

    def _put(self, event: Event) -> None:
        self._events.put((self._number, event))

    def _run(self, assignment: Assignment) -> None:
        try:
            self._put(run_trial(self._store, assignment, self._train))
        except self._cluster.ray.exceptions.RayError as error:
            self._put(Event("died", assignment.trial, reason=f"({type(error).__name__})"))
        except Exception as error:  # whatever it is, the pool must know that the trial is not running
            self._put(Event("died", assignment.trial, reason=f"({type(error).__name__}: {error})"))

    def _train(self, assignment: Assignment) -> TrialResult:
        """Train on the cluster, then unpack the run directory and its probes into the store."""
        self._cluster.check_open()
        has_paused = self._store.has_paused(assignment.trial)
        files = pack_run(self._store.run_dir(assignment.trial)) if has_paused else {}
        training = self._actor.train.remote(assignment, files)
        self._report_rows(assignment.trial, training)
        result: TrialResult
        result, files, probes = self._cluster.ray.get(training)
        unpack_run(files, self._store.run_dir(assignment.trial))
        for share, document in probes.items():
            self._store.write_probe(assignment.trial, share, document)
        return result

    def _report_rows(self, trial: str, training: Any) -> None:
        """Report that the actor has begun and every new row, until the training has ended."""
        has_begun = False
        last: MetricsRow | None = None
        while not self._wait(training):
            request = self._actor.latest_row.remote()
            if not self._wait(request):
                continue
            if not has_begun:
                self._put(Event("begin", trial))
                has_begun = True
            row = self._cluster.ray.get(request)
            if row is not None and row != last:
                last = row
                self._put(Event("row", trial, row=row))

    def _wait(self, reference: Any) -> bool:
        """Return whether a result arrives within half a second."""
        self._cluster.check_open()
        ready, _ = self._cluster.ray.wait([reference], timeout=POLL_SECONDS)
        self._cluster.check_open()
        return bool(ready)


def pack_run(source: Path) -> dict[str, bytes]:
    """Return the files of a run directory by relative path."""
    return {str(path.relative_to(source)): path.read_bytes() for path in source.rglob("*") if path.is_file()}


def unpack_run(files: Mapping[str, bytes], target: Path) -> None:
    """Write a run directory in one step, replacing an earlier attempt; without files, nothing."""
    if not files:
        return
    with disk_errors(target, RESUME_STUDY):
        incoming = target.with_name(f".{target.name}.{secrets.token_hex(8)}.incoming")
        incoming.mkdir()
        try:
            for name, content in files.items():
                path = incoming / name
                path.parent.mkdir(parents=True, exist_ok=True)
                write_bytes(path, content, RESUME_STUDY)
            shutil.rmtree(target, ignore_errors=True)
            incoming.rename(target)
        finally:
            shutil.rmtree(incoming, ignore_errors=True)
