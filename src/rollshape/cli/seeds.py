"""`rollshape train --num-seeds`: several seeds of one spec, one process per core."""

from __future__ import annotations

import sys
from typing import Any

from rollshape.cli import FAILED, INTERRUPTED, signal_of
from rollshape.cli.env_flags import calling_envs
from rollshape.cli.output import print_json, show_plan
from rollshape.cli.study_view import StudyView
from rollshape.studies.engines.seed_worker import SeedOptions
from rollshape.studies.events import Event
from rollshape.studies.seeds import SeedRun, SeedRuns, plan_seeds
from rollshape.training.spec import Spec


def run_seeds(spec: Spec, num_seeds: int, options: SeedOptions, *, resume: bool, as_json: bool) -> int:
    """Train the seeds, print what happened and return the exit code."""
    notes: list[str] = []
    with calling_envs(as_json):
        runs = plan_seeds(spec, num_seeds, options, resume=resume)
    if not as_json:
        show_plan(runs.plan)
    interrupt: KeyboardInterrupt | None = None
    with StudyView(quiet=as_json) as view:
        done = {run.seed for run in runs.runs() if run.status == "done"}
        view.set_trials(runs.trials, {trial.id: "done" if trial.seed in done else "pending" for trial in runs.trials})

        def on_event(event: Event) -> None:
            view.on_event(event)
            if event.kind in ("note", "retry"):
                notes.append(f"{event.trial}: {event.reason}" if event.trial else event.reason)

        try:
            runs.train(on_event)
        except KeyboardInterrupt as error:
            interrupt = error
    status = _status(runs.runs(), interrupt)
    if as_json:
        print_json(_document(runs, status, notes))
    else:
        _show(runs, status)
    if interrupt is not None:
        print("Interrupted. Run the same command with --resume to continue.", file=sys.stderr)
        return INTERRUPTED + signal_of(interrupt)
    return 0 if status == "done" else FAILED


def _status(runs: list[SeedRun], interrupt: KeyboardInterrupt | None) -> str:
    if interrupt is not None:
        return "interrupted"
    return "done" if all(run.status == "done" for run in runs) else "failed"


def _document(runs: SeedRuns, status: str, notes: list[str]) -> dict[str, Any]:
    final_return = runs.final_return()
    return {
        "status": status,
        "num_envs": runs.plan.num_envs,
        "num_steps": runs.plan.num_steps,
        "num_shards": runs.trials[0].spec.num_shards,
        "final_return": final_return.to_dict() if final_return else None,
        "seeds": [run.to_dict() for run in runs.runs()],
        "notes": notes,
    }


def _show(runs: SeedRuns, status: str) -> None:
    """Print one line per seed, then the mean over seeds."""
    for run in runs.runs():
        print(f"seed {run.seed} {run.status}: {_describe(run)}{run.path}")
    final_return = runs.final_return()
    if final_return is not None:
        method = "interquartile mean" if final_return.method == "iqm" else "mean"
        print(f"{method} over {final_return.runs} of {len(runs.trials)} seeds with its 95 % interval: {final_return}")
    print(f"{status}: {runs.options.out or 'runs'}")


def _describe(run: SeedRun) -> str:
    if run.final_return is None:
        return f"{run.reason} " if run.reason else ""
    speed = f", {run.summary['sps']:,} steps/s" if run.summary["sps"] else ""
    return f"final return {run.final_return:.1f} ± {run.summary['final_return_ci']:.1f}{speed} "
