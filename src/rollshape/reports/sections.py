"""The sections of a report, except its gradient section: claims, scores, curves, diagnosis, plans, provenance."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from rollshape.geometry import diagram
from rollshape.geometry.machine import machine
from rollshape.reports import tables
from rollshape.reports.document import Block, Bullets, Code, Details, Section, Svg, Text
from rollshape.reports.figures import scores
from rollshape.reports.gradient_section import gradient_blocks
from rollshape.reports.report_data import ReportData
from rollshape.studies.curves import ALIGNMENTS, Alignment
from rollshape.studies.groups import Task
from rollshape.studies.records import RunRecord
from rollshape.studies.run import StudyState
from rollshape.studies.statistics import MIN_BOOTSTRAP_RUNS
from rollshape.studies.trials import format_point
from rollshape.training.rundir import RunDirectory
from rollshape.training.scoring import EVAL_EPISODES
from rollshape.training.spec import FINAL_EPISODES

INTERVALS = (
    f"interquartile mean and 95 % bootstrap interval from {MIN_BOOTSTRAP_RUNS} runs on, else mean and t-interval"
)
AXES = "The axis is limited to the runs; a wide interval may extend beyond it."
CURVE_CAPTIONS: dict[Alignment, str] = {
    "timesteps": "Sample efficiency: return at equal timesteps.",
    "seconds": "Speed on the machine that ran it: return at equal seconds, without compilation and evaluation.",
    "gradient_steps": "Return at equal gradient steps.",
}


def claim_blocks(data: ReportData) -> list[Block]:
    """Every claim with its verdict, reasons and rule."""
    blocks: list[Block] = []
    for claim in data.claims:
        text = f"“{claim.claim}” {claim.headline}." if claim.claim else "No claim was made."
        effects = [f"Effect: {effect}." for effect in claim.effects if " minus " in effect.contrast]
        blocks += [Text(text, "strong"), Bullets([*claim.reasons, *effects]), Text(f"Rule: {claim.rule}", "small")]
    return blocks


def task_sections(data: ReportData, task: Task, number: int) -> list[Section]:
    """Scores, learning curves and the check of probes of one task."""
    suffix = f" on {task.label}" if len(data.tasks) > 1 else ""
    return [
        Section(f"Final scores{suffix}", _score_blocks(data, task, number)),
        Section(f"Learning curves{suffix}", _curve_blocks(data, task, number)),
        Section(f"Could a probe have predicted this?{suffix}", gradient_blocks(task, number, data.command)),
    ]


def _score_blocks(data: ReportData, task: Task, number: int) -> list[Block]:
    threshold, finals = task.threshold(), task.final_returns()
    blocks: list[Block] = []
    if finals:
        caption = f"Final return of every run ({INTERVALS}). {AXES} {data.command}"
        blocks.append(scores.final_returns(f"finals-{number}", task, finals, caption))
    else:
        blocks.append(Text("No run has finished: there is no final return yet.", "strong"))
    goal = (
        f"The threshold is a return of {threshold.value:.4g}, {threshold.source}; times are Kaplan–Meier medians, in "
        "which runs that never reach it are censored"
        if threshold
        else "No run has a score"
    )
    caption = f"Final return: {task.final_meaning}; {INTERVALS}. {goal}."
    blocks.append(tables.scores(task, threshold.value if threshold else None, caption))
    if len(finals) > 1 and min(map(len, finals.values())) > 1:
        caption = (
            "Probability that a run of the row's shape has a higher final return than one of the column's, with its "
            "95 % bootstrap interval; ties count half."
        )
        blocks.append(tables.improvement(finals, caption))
    return blocks


def _curve_blocks(data: ReportData, task: Task, number: int) -> list[Block]:
    blocks: list[Block] = []
    if task.metric != "eval_return":
        blocks.append(Text("Not every run was evaluated during training: the curves show training returns."))
    threshold = task.threshold()
    for by in ALIGNMENTS:
        caption = f"{CURVE_CAPTIONS[by]} Thin: every run; thick: center with its 95 % interval. {AXES} {data.command}"
        name = f"curves-{number}-{by.replace('_', '-')}"
        figure = scores.learning_curves(name, task, by, threshold.value if threshold else None, caption)
        if figure is not None:
            blocks.append(figure)
    return blocks or [Text("No run has a score yet.")]


def diagnosis_blocks(data: ReportData) -> list[Block]:
    """How the runs of each group ended, and what is suspected of the bad ones."""
    labels = {
        (run.task_key, run.group_key): group.label if len(data.tasks) == 1 else f"{task.label} {group.label}"
        for task in data.tasks
        for group in task.groups
        for run in group.runs
    }
    caption = (
        "Outcomes by a test of each run's learning curve, suspects by measured evidence. "
        f"rollshape diagnose {data.path}"
    )
    return [tables.run_verdicts(data.diagnoses, labels, caption), *_not_measurable_blocks(data)]


def _not_measurable_blocks(data: ReportData) -> list[Block]:
    """Which suspects the logs of other libraries can neither confirm nor clear."""
    needs: dict[str, set[str]] = {}
    for diagnosis in data.diagnoses:
        for suspect in diagnosis.not_measurable if not diagnosis.record.trainer.is_ours else ():
            needs.setdefault(suspect.rule, set()).update(suspect.needs)
    if not needs:
        return []
    items = [f"{rule} needs {', '.join(sorted(names))}" for rule, names in needs.items()]
    return [Text("Not measurable from the logs of some runs, and therefore not cleared:", "small"), Bullets(items)]


def missing_blocks(data: ReportData) -> list[Block]:
    """Illegal points, and runs that are not done, with their reasons."""
    if data.state is None:
        unfinished = [record for record in data.records if record.status not in ("done", "diverged")]
        items = [f"{record.path.name} is {record.status}" for record in unfinished]
        return [Bullets(items)] if items else [Text("Every run of the folder has finished.")]
    items = _missing_trials(data.state)
    return [Bullets(items)] if items else [Text("None: every point is legal and every trial has ended as planned.")]


def _missing_trials(state: StudyState) -> list[str]:
    items = [f"Illegal: {format_point(point.point)}. {point.message} {point.fix}" for point in state.illegal]
    for trial in state.trials:
        result = state.results[trial.id]
        is_dropped = state.race is not None and result.state in ("paused", "pending")  # a race trains few to the end
        if result.state != "done" and not is_dropped:
            reason = f": {result.reason}" if result.reason else ""
            items.append(f"{result.state.capitalize()}: {trial.id}{reason}")
    if not state.expansion.aligned:
        items.append(
            "Rollouts do not divide the steps between two evaluations: every run is scored at its nearest update."
        )
    return items


def plan_blocks(data: ReportData) -> list[Block]:
    """The sizes of every shape, and a diagram of each."""
    blocks: list[Block] = []
    for task in data.tasks:
        blocks.append(tables.plans(task))
        blocks += [Details(f"Data flow of {group.label}", [Svg(diagram.svg(group.plan))]) for group in task.groups]
    return blocks


def provenance_blocks(data: ReportData) -> list[Block]:
    """Commands, machine, seeds, evaluation and versions."""
    commands, facts = _study_provenance(data.state) if data.state else ([], [])
    here = machine()
    versions = sorted({f"{name} {number}" for record in data.records for name, number in record.versions.items()})
    facts += [
        f"Versions: {', '.join(versions) or 'not recorded'}.",
        f"This page was written on {platform.machine()} with {here.describe()}.",
        "The data of every figure is in this page (CSV); run.json, metrics.jsonl and probes of every run are in the "
        "folder.",
    ]
    return [Code("\n".join([*commands, data.command])), Bullets(facts), *_reproduce_blocks(data.records)]


def _study_provenance(state: StudyState) -> tuple[list[str], list[str]]:
    """Return (commands, facts) that the study's journal holds."""
    runs = state.store.runs()
    facts = [f"Run with the {run.engine} engine on {run.machine}, load {run.load}." for run in runs[-1:]]
    facts.append(f"Seeds: {', '.join(map(str, state.study.seeds))}.")
    facts.append(
        f"Scored every {state.expansion.evaluate_every:,} timesteps on up to {EVAL_EPISODES} fresh episodes, and after "
        f"the last update on up to {FINAL_EPISODES}; host environments stop early if the interval is narrow."
    )
    return list(dict.fromkeys(run.command for run in runs if run.command)), facts


def _reproduce_blocks(records: Sequence[RunRecord]) -> list[Block]:
    path = next((record.path for record in records if record.trainer.is_ours), None)
    if path is None or not RunDirectory(path).exists():
        return []
    return [Text(f"To repeat a run and compare it bit for bit: rollshape reproduce {path}", "small")]
