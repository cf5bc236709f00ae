"""`rollshape study`: run many shapes and seeds in parallel; a stopped study can be resumed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rollshape.cli import FAILED, INTERRUPTED, signal_of
from rollshape.cli.flags import CommonArgs, parse
from rollshape.studies.engines import EngineName

if TYPE_CHECKING:
    from rollshape.reports.report import WrittenReport
    from rollshape.studies.run import StudyState


@dataclass(frozen=True, kw_only=True)
class StudyArgs(CommonArgs):
    """Run a study: a built-in one (tradeoff, num-envs, num-steps, …) or a YAML file. Run it again to resume it."""

    study: Annotated[str, "name of a built-in study, or a study file"]
    out: Annotated[str | None, "folder of the study (default: studies/NAME)"] = None
    engine: Annotated[EngineName, "where the trials run"] = "local"
    address: Annotated[
        str | None,
        "ray: address of a cluster, or auto for the running one (default: $RAY_ADDRESS, else a new local one)",
    ] = None
    jobs: Annotated[int | None, "trials to run in parallel (default: one per core)"] = None
    seeds: Annotated[int | None, "seeds per point, instead of the study's"] = None
    env: Annotated[str | None, "environment, instead of the study's"] = None
    no_probes: Annotated[bool, "train and score only; probes of host environments with long episodes are expensive"] = (
        False
    )


def run(argv: Sequence[str]) -> int:
    args = parse(StudyArgs, "study", argv)
    from rollshape.cli.env_flags import calling_envs
    from rollshape.cli.study_view import StudyView
    from rollshape.files import output_directory
    from rollshape.geometry.values import whole_number
    from rollshape.studies.builtin import find_study
    from rollshape.studies.run import run_study

    study = find_study(args.study, args.env, args.seeds, no_probes=args.no_probes)
    jobs = None if args.jobs is None else whole_number("jobs", args.jobs, most=10_000)
    out = output_directory(args.out) if args.out is not None else Path("studies") / study.name
    options: dict[str, Any] = {"engine": args.engine, "jobs": jobs, "address": args.address}
    command = shlex.join(["rollshape", "study", *argv])
    try:
        with calling_envs(args.json), StudyView(quiet=args.json) as view:  # Ray prints, too
            state = run_study(
                study, out, **options, command=command, on_start=view.on_start, on_event=view.on_event
            )  # fmt: skip
    except KeyboardInterrupt as interrupt:
        return _end_interrupted(interrupt, out, args.json)
    report = _write_report(state)
    if args.json:
        _print_state(state, "done" if state.is_finished else "unfinished", report)
    else:
        _show_results(state, report)
    return 0 if state.is_finished else FAILED


def _end_interrupted(interrupt: KeyboardInterrupt, out: Path, as_json: bool) -> int:
    """Say how to resume the study, unless it was interrupted before it had begun."""
    from rollshape.studies.run import open_study
    from rollshape.studies.store import Store

    if not Store(out).has_begun():
        raise interrupt
    if as_json:
        _print_state(open_study(out), "interrupted", None)
    print(f"Interrupted. Run the same command again to resume {out}.", file=sys.stderr)
    return INTERRUPTED + signal_of(interrupt)


def _print_state(state: StudyState, status: str, report: WrittenReport | None) -> None:
    from rollshape.cli.output import print_json

    points = [point.to_dict() for point in state.point_summaries()]
    print_json(
        {"status": status, **state.to_dict(), "points": points, "report": report.to_dict() if report else None}
    )  # fmt: skip


def _show_results(state: StudyState, report: WrittenReport | None) -> None:
    from rollshape.cli.report import show_report
    from rollshape.cli.study_view import show_state

    show_state(state)
    if report is not None:
        show_report(report)


def _write_report(state: StudyState) -> WrittenReport | None:
    """Write the report of a study, unless none of its trials has finished."""
    from rollshape.reports.report import write_report

    has_finished = any(state.results[trial.id].is_final for trial in state.trials)
    return write_report(state.store.path) if has_finished else None
