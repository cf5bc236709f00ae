"""The Ray engine: the same trials on the machines of a cluster, bit for bit the same results.

Every worker is an actor with one CPU and the memory of the study's largest trial. It trains in a temporary folder of
its own machine and hands the run directory back, so the machines share nothing but Ray; Rollshape must be installed on
each. Claims and the journal stay with the process that was started. A dead worker's trial begins anew on another one.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rollshape.errors import RequestError
from rollshape.studies.engines.local import one_thread_environment
from rollshape.studies.engines.pool import Event, Told, Watch, Worker, run_pool
from rollshape.studies.execute import execute, probes
from rollshape.studies.fields import fitted
from rollshape.studies.store import Result, Store
from rollshape.studies.trials import Trial
from rollshape.training.spec import Spec

BASE_BYTES = 2**30  # Python, JAX and its compiler
POLL = 0.5  # seconds between two looks at a trial's progress


def run(store: Store, trials: Sequence[Trial], jobs: int | None, address: str | None, watch: Watch) -> None:
    """Run the trials on `jobs` workers of a cluster, by default as many as it has CPUs."""
    ray = _connected(address)
    try:
        peak = max(trial.plan.memory.peak_bytes if trial.plan.memory else 0 for trial in trials)
        actor = ray.remote(
            num_cpus=1,
            memory=BASE_BYTES + peak,
            max_restarts=0,
            max_concurrency=2,  # one call trains, the other tells how far it is
            runtime_env={"env_vars": one_thread_environment()},
        )(RemoteTrainer)
        count = jobs or int(ray.cluster_resources().get("CPU", 1))

        def hire(number: int, told: Told) -> Worker:
            return RayWorker(ray, store, number, actor.remote(), told)

        run_pool(store, trials, count, hire, watch)
    finally:
        ray.shutdown()


def check_installed() -> None:
    if find_spec("ray") is None:
        raise RequestError("study", "Ray is not installed.", "pip install 'rollshape[ray]'")


def _connected(address: str | None) -> Any:
    import ray

    try:
        if address is None:
            ray.init(log_to_driver=False, include_dashboard=False)
        else:
            ray.init(address=address, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        text = str(error).splitlines()[0]
        raise RequestError("study", f"No Ray cluster at {address}: {text}", "Check --address.") from None
    return ray


class RemoteTrainer:
    """What lives on the cluster: trains one trial at a time and hands back its run directory."""

    def __init__(self) -> None:
        self._row: dict[str, Any] | None = None

    def latest(self) -> dict[str, Any] | None:
        return self._row

    def train(
        self, spec: dict[str, Any], at: Sequence[float], envs: int
    ) -> tuple[dict[str, Any], dict[str, bytes], dict[float, dict[str, Any]]]:
        """(result, files of the run directory by relative path, probes by share of the run)."""
        self._row = None
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch) / "run"
            given = Spec(**{name: fitted(name, value) for name, value in spec.items()})
            result = execute(given, out, self._keep, keep=bool(at))
            probed = dict(probes(out, at, envs)) if result.state == "done" else {}
            files = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
        return vars(result), files, probed

    def _keep(self, row: dict[str, Any]) -> None:
        self._row = row


class RayWorker:
    """An actor, and for each of its trials a thread here that waits for it."""

    def __init__(self, ray: Any, store: Store, number: int, actor: Any, told: Told) -> None:
        self._ray, self._store, self._number, self._actor, self._told = ray, store, number, actor, told
        self._thread: threading.Thread | None = None

    def assign(self, trial: Trial, failures: int) -> None:
        self._thread = threading.Thread(target=self._run, args=(trial, failures), daemon=True)
        self._thread.start()

    def interrupt(self) -> None:
        self._ray.kill(self._actor)

    def close(self) -> None:
        self.kill()

    def kill(self) -> None:
        self._ray.kill(self._actor)
        if self._thread is not None:
            self._thread.join()

    def _tell(self, event: Event) -> None:
        self._told.put((self._number, event))

    def _run(self, trial: Trial, failures: int) -> None:
        try:
            self._tell(self._ran(trial, failures))
        except self._ray.exceptions.RayError as error:
            self._tell(Event("died", trial.id, reason=f"({type(error).__name__})"))
        except Exception as error:  # whatever it is, the study must hear of it
            self._tell(Event("died", trial.id, reason=f"({type(error).__name__}: {error})"))

    def _ran(self, trial: Trial, failures: int) -> Event:
        claim = self._store.claim(trial.id)
        if claim is None:
            return Event("taken", trial.id)
        with claim:
            before = self._store.progress().get(trial.id)
            if before is not None and (before.final or before.failures > failures):
                return Event("end", trial.id, result=before.result)
            self._store.begins(trial.id)
            training = self._actor.train.remote(trial.spec.to_dict(), trial.probe_at, trial.probe_envs)
            self._follow(trial, training)
            told, files, probed = self._ray.get(training)
            result = Result(**told)
            _unpack(files, self._store.run_dir(trial.id))
            for share, document in probed.items():
                self._store.write_probe(trial.id, share, document)
            self._store.ends(trial.id, result)
        return Event("end", trial.id, result=result)

    def _follow(self, trial: Trial, training: Any) -> None:
        """Tell of each new row until the training has ended, one way or the other."""
        began = last = False
        seen: dict[str, Any] | None = None
        while not last:
            ready, _ = self._ray.wait([training], timeout=POLL)
            last = bool(ready)
            asked = self._actor.latest.remote()
            answered, _ = self._ray.wait([asked], timeout=POLL)
            if not answered or last:
                continue
            if not began:
                self._tell(Event("begin", trial.id))
                began = True
            row = self._ray.get(asked)
            if row is not None and row != seen:
                seen = row
                self._tell(Event("row", trial.id, row=row))


def _unpack(files: dict[str, bytes], target: Path) -> None:
    """The run directory, whole or absent; an earlier attempt gives way."""
    incoming = target.with_name(f".{target.name}.incoming")
    shutil.rmtree(incoming, ignore_errors=True)
    incoming.mkdir()
    for name, content in files.items():
        path = incoming / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    shutil.rmtree(target, ignore_errors=True)
    incoming.rename(target)
