"""Studies and probes as the page shows them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rollshape.errors import RequestError
from rollshape.probes.result import Probe
from rollshape.probes.rewards import RewardProbe
from rollshape.reports.advice_section import recommend_in_sentences, recommended_commands
from rollshape.reports.report import has_claim
from rollshape.reports.report_data import ReportData, read_report_data
from rollshape.reports.summary import summarize_claims, write_headline
from rollshape.studies.curves import ALIGNMENTS, common_grid, confidence_band
from rollshape.studies.groups import Group, Task
from rollshape.studies.probe_records import FailedProbe, read_probe_file
from rollshape.studies.run import StudyState, open_study
from rollshape.studies.statistics import summarize
from rollshape.web.folder import Folder
from rollshape.web.metrics import last_row

Document = dict[str, Any]
CURVE_POINTS = 30
MOST_KEPT = 16


def study_list(folder: Folder) -> Document:
    """Return one entry per study: its title, claim, and how many of its trials have ended."""
    return {"studies": [_entry(folder, name) for name in folder.contents().studies]}


def _entry(folder: Folder, name: str) -> Document:
    try:
        state = open_study(folder.path(name))
    except RequestError as error:
        return {"path": name, "title": name, "error": error.to_dict()}
    ended = sum(state.results[trial.id].is_final for trial in state.trials)
    return {
        "path": name,
        "title": state.study.title,
        "claim": state.study.claim,
        "ended": ended,
        "trials": len(state.trials),
        "illegal": len(state.illegal),
    }


_kept: dict[tuple[str, int, bool], Document] = {}  # of studies that have ended, by path, journal and report


def study_document(folder: Folder, name: str) -> Document:
    """Return the progress of every trial, and as soon as there are rows, scores, curves and verdict."""
    path = folder.path(name)
    state = open_study(path)
    if not state.is_finished:
        return _read_study(path, name, state)
    key = (str(path), state.store.journal.path.stat().st_mtime_ns, (path / "report.html").is_file())
    if key not in _kept:
        while len(_kept) >= MOST_KEPT:
            _kept.pop(next(iter(_kept)), None)
        _kept[key] = _read_study(path, name, state)
    return _kept[key]


def _read_study(path: Path, name: str, state: StudyState) -> Document:
    document: Document = {
        "path": name,
        "title": state.study.title,
        "claim": state.study.claim,
        "trials": [_trial(state, path, number) for number in range(len(state.trials))],
        "illegal": [point.to_dict() for point in state.illegal],
        "report": (path / "report.html").is_file(),
        "tasks": [],
        "recommendation": [],
        "commands": [],
        "headline": "",
        "summary": [],
        "answer": None,
    }
    try:
        data = read_report_data(path)
    except RequestError as error:  # no row yet, or a damaged run
        return document | {"waiting": error.message}
    recommendation, reasons = recommend_in_sentences(data), summarize_claims(data)
    if not has_claim(data):  # a race: one answer, and its reasons
        recommendation, reasons = recommendation[:1], recommendation[1:]
    return document | {
        "tasks": [_task(task) for task in data.tasks],
        "recommendation": recommendation,
        "commands": recommended_commands(data),
        "headline": write_headline(data),
        "summary": reasons,
        "answer": data.claims[0].answer if data.claims else None,
        "outcomes": _outcomes(data),
    }


def _trial(state: StudyState, path: Path, index: int) -> Document:
    trial = state.trials[index]
    result = state.results[trial.id]
    row = None if result.is_final else last_row(path / "trials" / trial.id / "metrics.jsonl")
    total = trial.plan.actual_timesteps or 1
    done = total if result.is_final else (row or {}).get("timesteps", 0)
    return {
        "id": trial.id,
        "seed": trial.seed,
        "num_envs": trial.plan.num_envs,
        "num_steps": trial.plan.num_steps,
        "point": trial.point,
        "state": "running" if result.state == "pending" and row else result.state,
        "reason": result.reason,
        "progress": min(1.0, done / total),
        "final_return": _finite(result.final_return),
    }


def _task(task: Task) -> Document:
    threshold = task.threshold()
    return {
        "label": task.label,
        "metric": task.metric,
        "threshold": None if threshold is None else {"value": threshold.value, "source": threshold.source},
        "groups": _ranked(task),
    }


def _ranked(task: Task) -> list[Document]:
    """Return the groups with their scores, the best one first."""
    finals, areas = task.final_returns(), task.areas()
    entries: list[Document] = []
    for group in task.groups:
        final, area = finals.get(group.label), areas.get(group.label)
        entries.append(
            {
                "label": group.label,
                "num_envs": group.plan.num_envs,
                "num_steps": group.plan.num_steps,
                "runs": len(group.runs),
                "finished": 0 if final is None else len(final),
                "final_return": None if final is None else _summary(summarize(final).to_dict()),
                "area": None if area is None else _summary(summarize(area).to_dict()),
                "curves": {by: _band(task, group, by) for by in ALIGNMENTS},
            }
        )
    best = {label: summarize(values).value for label, values in finals.items()}
    return sorted(entries, key=lambda entry: -best.get(entry["label"], -math.inf))


def _summary(document: Document) -> Document:
    return {name: _finite(value) if isinstance(value, float) else value for name, value in document.items()}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _band(task: Task, group: Group, by: Any) -> Document | None:
    lines = [line for line in task.curves(group, by) if len(line.x)]
    if not lines:
        return None
    grid = common_grid(lines, CURVE_POINTS)
    band = confidence_band(lines, grid)
    return {
        "x": [float(x) for x in grid],
        **{name: [_finite(float(y)) for y in values] for name, values in band._asdict().items()},
    }


def _outcomes(data: ReportData) -> list[Document]:
    return [
        {
            "path": diagnosis.record.path.name,
            "shape": diagnosis.record.shape,
            "seed": diagnosis.record.spec.seed,
            "verdict": diagnosis.verdict.name,
            "is_bad": diagnosis.verdict.is_bad,
            "reason": diagnosis.verdict.reason,
            "suspects": [finding.to_dict() for finding in diagnosis.suspects[:3]],
        }
        for diagnosis in data.diagnoses
    ]


def probe_list(folder: Folder) -> Document:
    """Return the probes of all runs and studies by their file, without reading them."""
    contents = folder.contents()
    probes = []
    for name in contents.runs:
        for file in sorted(folder.path(name).glob("probes/[0-9]*/probe.json")):
            probes.append(
                {"path": file.relative_to(folder.root).as_posix(), "run": name, "at": f"update {file.parent.name}"}
            )
    for name in contents.studies:
        for file in sorted(folder.path(name).glob("probes/*/[0-9]*.json")):
            probes.append(
                {
                    "path": file.relative_to(folder.root).as_posix(),
                    "run": f"{name}/trials/{file.parent.name}",
                    "at": f"{float(file.stem):.0%} of the run",
                }
            )
    return {"probes": probes}


def probe_document(folder: Folder, name: str) -> Document:
    """Return a probe: its document, and its main results in sentences."""
    path = folder.path(name)
    if "probes" not in path.parts or path.suffix != ".json":
        raise RequestError("run", "This is not the file of a probe.", "Use a path of the list.")
    probe = read_probe_file(path)
    if isinstance(probe, FailedProbe):
        raise RequestError("run", f"The probe has no result: {probe.error}", "Run `rollshape probe` again.")
    kind = "reward" if isinstance(probe, RewardProbe) else "gradient"
    assert isinstance(probe, (Probe, RewardProbe))
    return {"kind": kind, "probe": probe.to_dict(), "sentences": probe.sentences()}
