"""`rollshape study`: many shapes and seeds side by side, resumable at any moment."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rollshape.cli.flags import CommonArgs, parse
from rollshape.errors import RequestError

if TYPE_CHECKING:
    from rollshape.reports.report import Report
    from rollshape.studies.run import Outcome
    from rollshape.studies.study import Study

FILES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, kw_only=True)
class StudyArgs(CommonArgs):
    """Run a study: a built-in one (tradeoff, num-envs, num-steps, …) or a YAML file. Run it again to go on with it."""

    study: Annotated[str, "a built-in study's name, or a study file"]
    out: Annotated[str | None, "the study's folder (default: studies/NAME)"] = None
    engine: Annotated[Literal["local", "ray"], "where the trials run"] = "local"
    address: Annotated[str | None, "ray: the cluster (default: the one that is running, or a new one here)"] = None
    jobs: Annotated[int | None, "trials side by side (default: one a core)"] = None
    seeds: Annotated[int | None, "seeds for each point, instead of the study's own"] = None
    env: Annotated[str | None, "another environment than the study's"] = None
    no_probes: Annotated[bool, "train and score only: probes of host environments with long episodes take long"] = False


def run(argv: Sequence[str]) -> int:
    args = parse(StudyArgs, "study", argv)
    from rollshape.cli.output import print_json
    from rollshape.geometry.request import whole_number
    from rollshape.studies.run import run_study

    study = _study(args)
    if args.address is not None and args.engine != "ray":
        raise RequestError("contradiction", "--address is that of a Ray cluster.", "Add --engine ray.")
    jobs = None if args.jobs is None else whole_number("jobs", args.jobs, most=10_000)
    out = Path(args.out) if args.out else Path("studies") / study.name
    command = shlex.join(["rollshape", "study", *argv])
    if args.json:
        outcome = run_study(study, out, engine=args.engine, jobs=jobs, address=args.address, command=command)
        report = _report(outcome)
        told = {"points": summary(outcome), "report": report.to_dict() if report else None}
        print_json(outcome.to_dict() | told)
        return 0 if outcome.finished else 1
    from rollshape.cli.report import show_report
    from rollshape.cli.study_view import StudyView, show_outcome

    try:
        with StudyView() as view:
            outcome = run_study(
                study, out, engine=args.engine, jobs=jobs, address=args.address, command=command, begun=view.begun,
                watch=view.watch,
            )  # fmt: skip
    except KeyboardInterrupt:
        print(f"stopped; the same command goes on with {out}", file=sys.stderr)
        return 130
    show_outcome(outcome, summary(outcome))
    report = _report(outcome)
    if report is not None:
        show_report(report)
    return 0 if outcome.finished else 1


def _report(outcome: Outcome) -> Report | None:
    """The report of a study of which something has been run."""
    from rollshape.reports.report import write_report

    begun = any(outcome.results[trial.id].state in ("done", "diverged") for trial in outcome.trials)
    return write_report(outcome.store.path) if begun else None


def _study(args: StudyArgs) -> Study:
    from rollshape.studies.builtin import builtin
    from rollshape.studies.study import read_study

    study = read_study(args.study) if args.study.endswith(FILES) else builtin(args.study)
    if args.env is not None:
        study = study.with_env(args.env)
    if args.seeds is not None:
        study = study.with_seeds(args.seeds)
    return study.without_probes() if args.no_probes else study


def summary(outcome: Outcome) -> list[dict[str, Any]]:
    """A row a point: its shape, how its trials ended, and their final return with its interval."""
    from rollshape.studies.statistics import summarised

    rows = []
    for trials in outcome.groups().values():
        results = [outcome.results[trial.id] for trial in trials]
        scores = [result.summary["final_return"] for result in results if result.state == "done"]
        first = trials[0]
        rows.append(
            {
                "point": first.point,
                "num_envs": first.plan.num_envs,
                "num_steps": first.plan.num_steps,
                "trials": len(trials),
                "done": len(scores),
                "states": [result.state for result in results],
                "returns": scores,
                "final_return": summarised(scores).to_dict() if scores else None,
            }
        )
    return rows
