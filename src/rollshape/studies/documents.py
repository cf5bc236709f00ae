"""What studies and reports rely on in run.json and in the lines of a journal; a wrong value is a RequestError."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

from rollshape.errors import RequestError
from rollshape.geometry.plan import Plan
from rollshape.studies.metrics import check_metric
from rollshape.training.rundir import NEW_DIRECTORY, RunDirectory
from rollshape.training.spec import Spec
from rollshape.typed import check_types

TrialState = Literal["pending", "paused", "done", "diverged", "failed", "illegal"]
SIZES = ("num_envs", "num_steps", "rollout_size", "minibatch_size", "num_minibatches", "num_epochs")
READ_ERRORS = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)


class RunSummary(TypedDict, total=False):
    """How a run ended; there are other entries, which are only copied."""

    timesteps: int
    final_return: float | None
    sps: float | None
    fix: str  # of a trial that is illegal


class StartedRun(TypedDict):
    """run.json of any run."""

    spec: dict[str, Any]
    plan: dict[str, Any]
    status: str
    versions: dict[str, str]


class MetricsExtent(TypedDict):
    """`checksums.Extent`."""

    size: int
    sha256: str


class RunDocument(StartedRun, total=False):
    """run.json; a run that has ended has a summary, and the extent of its metrics."""

    summary: RunSummary
    metrics: MetricsExtent
    config: dict[str, Any]  # of a run of another library, in that library's keys
    assumed: dict[str, Any]  # keys that this config does not contain, with the library's defaults


class StudyEvent(TypedDict):
    name: str
    study: dict[str, Any]


class RunEvent(TypedDict):
    command: str
    engine: str
    machine: str
    load: str


class EndEvent(TypedDict):
    trial: str
    state: TrialState
    cause: str
    reason: str
    summary: RunSummary


EVENTS = {"study": StudyEvent, "run": RunEvent, "end": EndEvent}


def check_event(event: Mapping[str, Any], kind: str) -> None:
    """Raise a ValueError that names a wrong value of an event."""
    check_types(event, EVENTS[kind], kind)
    if kind == "end":
        check_metric(event["summary"].get("final_return"), "end.summary.final_return")


@contextmanager
def reading(file: str | Path, fix: str) -> Iterator[None]:
    """Turn an error while the values of a file are read into a RequestError that names the file and the value."""
    try:
        yield
    except RequestError:
        raise
    except KeyError as error:
        raise RequestError("file", f"{file}: {error.args[0]} is missing.", fix) from None
    except READ_ERRORS as error:
        raise RequestError("file", f"{file}: {error}.", fix) from None


def read_run(directory: RunDirectory) -> tuple[RunDocument, Spec, Plan]:
    """Return run.json, and the spec and plan in it."""
    with reading(directory.path / "run.json", NEW_DIRECTORY):
        document = directory.read()
        check_types(document, RunDocument)
        spec, plan = Spec.from_dict(document["spec"]), Plan.from_dict(document["plan"])
        check_types(spec, Spec, "spec")
        check_types(plan, Plan, "plan")
        check_metric(document.get("summary", {}).get("final_return"), "summary.final_return")
        for name in SIZES:
            if getattr(plan, name) < 1:
                raise ValueError(f"plan.{name} is {getattr(plan, name)}, not a positive number")
        return cast(RunDocument, document), spec, plan
