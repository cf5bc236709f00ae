"""`rollshape study`: run many shapes and seeds in parallel; a stopped study can be resumed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rollshape.cli.flags import CommonArgs, parse
from rollshape.studies.engines import EngineName

if TYPE_CHECKING:
    from rollshape.reports.report import WrittenReport
    from rollshape.studies.run import StudyState
    from rollshape.studies.study import Study

STUDY_FILES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, kw_only=True)
class StudyArgs(CommonArgs):
    """Run a study: a built-in one (tradeoff, num-envs, num-steps, …) or a YAML file. Run it again to resume it."""

    study: Annotated[str, "name of a built-in study, or a study file"]
    out: Annotated[str | None, "folder of the study (default: studies/NAME)"] = None
    engine: Annotated[EngineName, "where the trials run"] = "local"
    address: Annotated[str | None, "ray: address of the cluster (default: the running one, or a new local one)"] = None
    jobs: Annotated[int | None, "trials to run in parallel (default: one per core)"] = None
    seeds: Annotated[int | None, "seeds per point, instead of the study's"] = None
    env: Annotated[str | None, "environment, instead of the study's"] = None
    no_probes: Annotated[bool, "train and score only; probes of host environments with long episodes are expensive"] = (
        False
    )


def run(argv: Sequence[str]) -> int:
    args = parse(StudyArgs, "study", argv)
    from rollshape.cli.output import print_json
    from rollshape.geometry.request import whole_number
    from rollshape.studies.run import run_study

    study = _load_study(args)
    jobs = None if args.jobs is None else whole_number("jobs", args.jobs, most=10_000)
    out = Path(args.out) if args.out else Path("studies") / study.name
    command = shlex.join(["rollshape", "study", *argv])
    if args.json:
        state = run_study(study, out, engine=args.engine, jobs=jobs, address=args.address, command=command)
        report = _write_report(state)
        points = [point.to_dict() for point in state.point_summaries()]
        print_json(state.to_dict() | {"points": points, "report": report.to_dict() if report else None})
        return 0 if state.is_finished else 1
    from rollshape.cli.report import show_report
    from rollshape.cli.study_view import StudyView, show_state

    try:
        with StudyView() as view:
            state = run_study(
                study, out, engine=args.engine, jobs=jobs, address=args.address, command=command,
                on_start=view.on_start, on_event=view.on_event,
            )  # fmt: skip
    except KeyboardInterrupt:
        print(f"Interrupted. Run the same command again to resume {out}.", file=sys.stderr)
        return 130
    show_state(state)
    report = _write_report(state)
    if report is not None:
        show_report(report)
    return 0 if state.is_finished else 1


def _write_report(state: StudyState) -> WrittenReport | None:
    """Write the report of a study, unless none of its trials has finished."""
    from rollshape.reports.report import write_report

    has_finished = any(state.results[trial.id].is_final for trial in state.trials)
    return write_report(state.store.path) if has_finished else None


def _load_study(args: StudyArgs) -> Study:
    from rollshape.studies.builtin import load_builtin
    from rollshape.studies.study_file import read_study

    study = read_study(args.study) if args.study.endswith(STUDY_FILES) else load_builtin(args.study)
    if args.env is not None:
        study = study.with_env(args.env)
    if args.seeds is not None:
        study = study.with_seeds(args.seeds)
    return study.without_probes() if args.no_probes else study
