"""Run one trial from lock to journal, the same in every engine; a failure is a state with its reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rollshape.envs.failures import EnvironmentAbandoned
from rollshape.errors import RollshapeError
from rollshape.studies.documents import read_run
from rollshape.studies.events import Event
from rollshape.studies.metrics import MetricsRow
from rollshape.studies.store import Store, TrialResult
from rollshape.studies.trials import Trial
from rollshape.training.rundir import RunDirectory
from rollshape.training.spec import Spec

PROBED_CHECKPOINTS = 10  # kept by a trial that is probed; h is measured between them
OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "Cannot allocate memory")


class Interrupted(Exception):
    """The trial was asked to stop; it continues from its checkpoint."""


@dataclass(frozen=True)
class Assignment:
    """A trial as it is sent to a worker. `failures` is how often it had failed when it was assigned."""

    trial: str
    spec: Spec
    failures: int
    probe_at: tuple[float, ...]
    probe_envs: int
    until: int | None = None

    @classmethod
    def of_trial(cls, trial: Trial, failures: int) -> Assignment:
        return cls(trial.id, trial.spec, failures, trial.probe_at, trial.probe_envs, trial.until)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Assignment:
        spec, probe_at = Spec.from_dict(values["spec"]), tuple(values["probe_at"])
        return cls(values["trial"], spec, values["failures"], probe_at, values["probe_envs"], values["until"])


def run_trial(store: Store, assignment: Assignment, train: Callable[[Assignment], TrialResult]) -> Event:
    """Lock a trial, train it and journal its end; return the event that ends the assignment.

    `train` does the engine's part: it leaves a run directory and probes in the store and returns the result.
    """
    lock = store.lock_trial(assignment.trial)
    if lock is None:
        return Event("taken", assignment.trial)
    with lock:
        earlier = store.progress().get(assignment.trial)
        if earlier is not None and earlier.is_final and store.has_damaged_probe(assignment.trial):
            train(assignment)  # only measures the probe again: the run has ended
            return Event("end", assignment.trial, result=earlier.result)
        is_newer = earlier is not None and earlier.failures > assignment.failures
        if earlier is not None and (earlier.result.has_reached(assignment.until) or is_newer):
            return Event("end", assignment.trial, result=earlier.result)  # another process was faster
        store.record_begin(assignment.trial)
        result = train(assignment)
        store.record_end(assignment.trial, result)
    return Event("end", assignment.trial, result=result)


def train_trial(assignment: Assignment, out: Path, on_row: Callable[[MetricsRow], None] | None = None) -> TrialResult:
    """Train to the end or to the next pause, from wherever an earlier attempt stopped.

    A trial that is to be probed keeps checkpoints along the way.
    """
    is_new = not RunDirectory(out).exists()
    num_checkpoints = _num_checkpoints(assignment.spec) if assignment.probe_at and is_new else None
    return resume_run(assignment.spec, out, on_row, keep_checkpoints=num_checkpoints, until=assignment.until)


def resume_run(
    spec: Spec, out: Path, on_row: Callable[[MetricsRow], None] | None = None, **options: Any
) -> TrialResult:
    """Start or continue the run in `out`, with the `options` of `train`, and return how it ended, also if it failed."""
    from rollshape.training.run import train

    try:
        finished = _finished_result(spec, out, options.get("until"))
        if finished is not None:
            return finished
        run = train(
            spec,
            out=out,
            resume=True,
            on_row=(lambda row, _: on_row(MetricsRow.from_dict(row))) if on_row else None,
            **options,
        )
    except MemoryError as error:
        return TrialResult("failed", "out of memory", describe_error(error))
    except EnvironmentAbandoned as error:
        raise Interrupted from error
    except RollshapeError as error:
        cause = {"environment": "environment error", "disk": "disk"}.get(error.rule, "refused")
        return TrialResult("failed", cause, f"{error.message} {error.fix}".strip())
    except Exception as error:  # an environment is foreign code and may raise anything
        cause = "out of memory" if any(sign in str(error) for sign in OUT_OF_MEMORY) else "error"
        return TrialResult("failed", cause, describe_error(error))
    if run.status == "interrupted":
        raise Interrupted
    return _make_result(run.status, run.summary)


def _num_checkpoints(spec: Spec) -> int:
    """Return ten, or the number of logging intervals if there are fewer."""
    updates = spec.plan().num_updates or 1
    return min(PROBED_CHECKPOINTS, -(-updates // (spec.log_every or 1)))


def _finished_result(spec: Spec, out: Path, until: int | None) -> TrialResult | None:
    """Return the result of a run that finished or paused, but whose process ended before it was journaled."""
    directory = RunDirectory(out)
    if not directory.exists():
        return None
    document, earlier_spec, _ = read_run(directory)
    summary = document.get("summary")
    if document["status"] not in ("done", "diverged", "paused") or summary is None or earlier_spec != spec:
        return None
    result = _make_result(document["status"], dict(summary))
    return result if result.has_reached(until) else None


def _make_result(status: str, summary: dict[str, Any]) -> TrialResult:
    summary = {name: value for name, value in summary.items() if name != "run_dir"}  # the folder may be moved
    if status == "done":
        return TrialResult("done", summary=summary)
    if status == "paused":
        return TrialResult("paused", summary=summary)
    if status == "diverged":
        reason = f"a loss or parameter was not finite after {summary['timesteps']:,} timesteps"
        return TrialResult("diverged", "diverged", reason, summary)
    return TrialResult("failed", status, f"the run ended as {status}", summary)


def describe_error(error: BaseException) -> str:
    """Return an exception as one line of at most 500 characters."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]
