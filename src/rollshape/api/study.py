"""`rollshape.study` and `rollshape.load_study`: studies in Python."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rollshape.api.runs import Runs, load_runs
from rollshape.api.tables import to_frame
from rollshape.envs.objects import PREFIX, env_id
from rollshape.errors import RequestError
from rollshape.files import output_directory
from rollshape.geometry.calls import check_arguments
from rollshape.geometry.values import Range
from rollshape.probes.notebook import to_html
from rollshape.reports.report import WrittenReport, write_report
from rollshape.studies.builtin import change_study, find_study
from rollshape.studies.engines import EngineName
from rollshape.studies.events import OnEvent
from rollshape.studies.groups import SHAPE_FIELDS
from rollshape.studies.run import StudyState, open_study, run_study
from rollshape.studies.study_file import study_from_dict, study_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JOBS = Range(1, 10_000)
COMMAND = "rollshape.study"  # that the journal records


@dataclass(frozen=True)
class StudyResult(StudyState):
    """A study with the results of its trials so far, and the report, if one was written."""

    report: WrittenReport | None = None

    @property
    def path(self) -> Path:
        return self.store.path

    def __fspath__(self) -> str:
        return str(self.path)

    @cached_property
    def runs(self) -> Runs:
        """The runs of all trials that have begun."""
        return load_runs(self.path)

    @property
    def points(self) -> Any:
        """One row per point: shape, number of finished trials, and final return with its 95 % interval over seeds."""
        rows = []
        for point in self.point_summaries():
            final = point.final_return
            rows.append(
                {
                    **point.point,
                    "num_envs": point.num_envs,
                    "num_steps": point.num_steps,
                    "trials": len(point.states),
                    "done": len(point.returns),
                    "final_return": final.value if final else None,
                    "low": final.low if final else None,
                    "high": final.high if final else None,
                }
            )
        return to_frame(rows)

    @check_arguments
    def plot(self) -> Figure:
        """Draw learning curves and final returns of all points, with 95 % intervals over seeds."""
        return self.runs.plot(self.study.title)

    def _repr_html_(self) -> str:
        facts = {"study": self.study.name, "folder": str(self.path)}
        for point in self.point_summaries():
            states = f"{point.num_finished} of {len(point.states)} trials"
            other = [f"{name} {value}" for name, value in point.point.items() if name not in SHAPE_FIELDS]
            facts[", ".join([f"{point.num_envs}×{point.num_steps}", *other])] = (
                f"{point.final_return or 'no result'} ({states})"
            )
        sentences = [self.report.headline, *self.report.summary] if self.report else []
        has_runs = any(self.results[trial.id].is_final for trial in self.trials)
        figures = {"learning curves and final returns": self.plot()} if has_runs else {}
        return to_html(self.study.title, facts, sentences, figures)


@check_arguments
def study(
    study: str | os.PathLike[str] | Mapping[str, Any],
    *,
    out: str | os.PathLike[str] | None = None,
    engine: EngineName = "local",
    address: str | None = None,
    jobs: Annotated[int | None, JOBS] = None,
    seeds: int | None = None,
    env: Any = None,
    no_probes: bool = False,
    on_event: OnEvent | None = None,
) -> StudyResult:
    """Run a study, or resume one that was interrupted, and write its report.

    Args:
        study: name of a built-in study, a study file, or the contents of one as a mapping.
        out: folder of the study, by default studies/NAME.
        engine: where the trials run.
        address: ray: address of a cluster, or "auto" for the running one.
        jobs: trials to run in parallel, by default one per core.
        seeds: seeds per point, instead of the study's.
        env: environment, instead of the study's: an id, or a class or function that is in a module.
        no_probes: train and score only.
        on_event: called with everything that happens while the study runs.
    """
    identity = None if env is None else _importable(env)
    if isinstance(study, Mapping):
        name = "study" if out is None else study_name(os.fspath(out))
        definition = change_study(study_from_dict(study, name), identity, seeds, no_probes=no_probes)
    else:
        definition = find_study(os.fspath(study), identity, seeds, no_probes=no_probes)
    folder = output_directory(os.fspath(out)) if out is not None else Path("studies") / definition.name
    state = run_study(
        definition, folder, engine=engine, jobs=jobs, address=address, command=COMMAND, on_event=on_event
    )  # fmt: skip
    has_finished = any(state.results[trial.id].is_final for trial in state.trials)
    return _new_result(state, write_report(folder) if has_finished else None)


@check_arguments
def load_study(folder: str | os.PathLike[str]) -> StudyResult:
    """Read the folder of a study, finished or not."""
    return _new_result(open_study(output_directory(os.fspath(folder))), None)


def _new_result(state: StudyState, report: WrittenReport | None) -> StudyResult:
    return StudyResult(**{item.name: getattr(state, item.name) for item in fields(StudyState)}, report=report)


def _importable(env: Any) -> str:
    """Return the id of an environment that other processes can create, too."""
    identity = env_id(env)
    if identity.startswith(PREFIX):
        name = identity.removeprefix(PREFIX)
        raise RequestError(
            "environment",
            f"A study trains in other processes, which cannot create {identity}: it is defined in this script or "
            "notebook, or is an instance.",
            f"Put {name} into a module, and use its class or `module:{name}`.",
        )
    return identity
