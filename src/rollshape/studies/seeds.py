"""Several seeds of one spec at the same time: single-threaded processes, each pinned to a core, as in a study.

Every seed has its own run directory, with the result of a single run of the same spec, bit for bit. A process has one
core, so the spec gets `num_shards` 1 unless it says otherwise.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax

from rollshape.envs.access import EnvAccess
from rollshape.errors import RequestError
from rollshape.files import output_directory
from rollshape.geometry.plan import Plan
from rollshape.geometry.values import SEED
from rollshape.studies.engines.local import LocalWorker, count_workers, least_pinned_cores
from rollshape.studies.engines.pool import EngineOptions, EventQueue, Worker, run_pool
from rollshape.studies.engines.seed_worker import SeedOptions, seed_path
from rollshape.studies.events import Event, OnEvent
from rollshape.studies.statistics import Summary, summarize
from rollshape.studies.store import Store, TrialProgress, TrialResult
from rollshape.studies.trials import WORKER_DEFAULTS, Trial
from rollshape.training.resume import earlier_document, is_done
from rollshape.training.rundir import RunDirectory
from rollshape.training.setup import check_run
from rollshape.training.spec import Spec, checked_spec

WORKER = "rollshape.studies.engines.seed_worker"
NO_SUMMARY: dict[str, Any] = {
    "timesteps": 0, "final_return": None, "final_return_ci": None, "final_episodes": 0, "sps": None, "compile_s": None,
    "notes": [],
}  # fmt: skip


@dataclass(frozen=True)
class SeedRun:
    """The run of one seed: `status` is done, diverged, failed, interrupted or pending (not started)."""

    seed: int
    path: Path
    status: str
    reason: str  # why it diverged or failed
    summary: dict[str, Any]

    @property
    def final_return(self) -> float | None:
        value: float | None = self.summary["final_return"]
        return value

    def to_dict(self) -> dict[str, Any]:
        """Return the summary of a single run, with the seed and the reason."""
        named = {"seed": self.seed, "run_dir": str(self.path), "status": self.status, "reason": self.reason}
        return {**named, **{name: value for name, value in self.summary.items() if name not in named}}


class SeedRuns:
    """The runs of seeds S, S + 1, …; created by `plan_seeds`, trained by `train`."""

    def __init__(self, trials: tuple[Trial, ...], options: SeedOptions) -> None:
        self.trials, self.options = trials, options
        self._results: dict[str, TrialResult] = {}

    @property
    def plan(self) -> Plan:
        return self.trials[0].plan

    def train(self, on_event: OnEvent) -> None:
        """Train what is left; on KeyboardInterrupt every process saves its state before this raises it."""
        done = {run.seed for run in self.runs() if run.status == "done"}
        pending = [trial for trial in self.trials if trial.seed not in done]
        memory = self.plan.memory
        count = count_workers(EngineOptions(peak_bytes=memory.peak_bytes if memory else 0), len(pending), on_event)
        cores = least_pinned_cores(count)

        def start_worker(number: int, events: EventQueue) -> Worker:
            return LocalWorker((WORKER, self.options.to_json()), number, cores[number], events)

        def record(event: Event) -> None:
            if event.result is not None:
                self._results[event.trial] = event.result
            on_event(event)

        run_pool(_SeedRecords(), pending, count, start_worker, record)

    def runs(self) -> list[SeedRun]:
        """Return every seed's run as it is now."""
        return [self._read_run(trial) for trial in self.trials]

    def final_return(self) -> Summary | None:
        """Return the mean of the finished runs with its 95 % interval over seeds (from ten on, interquartile)."""
        values = [run.final_return for run in self.runs() if run.status == "done" and run.final_return is not None]
        return summarize(values) if values else None

    def _read_run(self, trial: Trial) -> SeedRun:
        path, result = seed_path(self.options.out, trial.spec, trial.plan), self._results.get(trial.id)
        if result is not None:
            return SeedRun(trial.seed, path, result.state, result.reason, {**NO_SUMMARY, **result.summary})
        directory = RunDirectory(path)
        document: dict[str, Any] = directory.read() if directory.exists() else {}
        status = "done" if is_done(document) else "interrupted" if document else "pending"
        return SeedRun(trial.seed, path, status, "", {**NO_SUMMARY, **document.get("summary", {})})


class _SeedRecords:
    """What the pool reads and records: nothing, because a run directory says how its run ended."""

    def check_exists(self) -> None:
        """Leave this to the processes: each has a run directory of its own."""

    def progress(self) -> dict[str, TrialProgress]:
        return {}

    def lock_trial(self, _: str) -> AbstractContextManager[None]:
        return nullcontext()

    def record_end(self, trial: str, result: TrialResult) -> None:
        """Leave run.json as the process left it: `--resume` continues from the last checkpoint."""


def plan_seeds(spec: Spec, num_seeds: int, options: SeedOptions, *, resume: bool) -> SeedRuns:
    """Return the runs of seeds `spec.seed` … `spec.seed` + `num_seeds` − 1; nothing is written before all are valid.

    Without `resume`, a run directory that exists is a RequestError.
    """
    last = spec.seed + num_seeds - 1
    if last > SEED.most:
        raise RequestError(
            "number-range",
            f"num_seeds {num_seeds:,} from seed {spec.seed:,} on ends at seed {last:,}; the largest is "
            f"{int(SEED.most):,}.",
            f"Use --seed {int(SEED.most) - num_seeds + 1} or less.",
        )
    if spec.num_shards == "auto":
        spec = checked_spec(spec, **WORKER_DEFAULTS)
    plan = check_run(spec, EnvAccess(options.env_timeout, options.isolate_env))
    if jax.default_backend() != "cpu":
        raise RequestError(
            "contradiction",
            f"--num-seeds trains one process per CPU core, but JAX uses {jax.default_backend()}.",
            "Set JAX_PLATFORMS=cpu, or train one seed after the other.",
        )
    specs = [replace(spec, seed=spec.seed + i) for i in range(num_seeds)]
    folder = Path("runs") if options.out is None else output_directory(options.out)
    _check_folder(folder)
    for seeded in specs:
        directory = RunDirectory(seed_path(options.out, seeded, plan))
        earlier_document(directory, seeded, resume, options.keep_checkpoints)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError("file", f"Cannot create {folder}: {error.strerror}.", "Choose another --out.") from None
    return SeedRuns(tuple(Trial(f"seed{one.seed}", "seeds", {}, one.seed, one, plan) for one in specs), options)


def _check_folder(folder: Path) -> None:
    """Refuse a folder that holds something else."""
    kind = "a run" if RunDirectory(folder).exists() else "a study" if Store(folder).has_begun() else ""
    if kind:
        raise RequestError(
            "run", f"{folder} already holds {kind}.", "Use another --out: a folder for one run per seed."
        )
