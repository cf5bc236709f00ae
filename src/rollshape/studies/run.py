"""Run a study in its folder, from the start or from where it was stopped."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.machine import machine
from rollshape.studies.documents import TrialState
from rollshape.studies.engines import EngineName
from rollshape.studies.engines.pool import EngineOptions, no_more_trials
from rollshape.studies.engines.registry import ENGINES
from rollshape.studies.events import OnEvent
from rollshape.studies.racing.race import Race
from rollshape.studies.statistics import Summary, summarize
from rollshape.studies.store import FINAL_STATES, Store, TrialResult
from rollshape.studies.study import Study
from rollshape.studies.trials import Expansion, IllegalPoint, Trial, expand


@dataclass(frozen=True)
class PointSummary:
    """One point of a study: its shape, the states of its trials, and their final return with its interval."""

    point: dict[str, Any]
    num_envs: int
    num_steps: int
    states: list[TrialState]
    returns: list[float]
    final_return: Summary | None

    @property
    def num_finished(self) -> int:
        return sum(state in FINAL_STATES for state in self.states)

    def to_dict(self) -> dict[str, Any]:
        return {
            "point": self.point,
            "num_envs": self.num_envs,
            "num_steps": self.num_steps,
            "trials": len(self.states),
            "done": len(self.returns),
            "states": self.states,
            "returns": self.returns,
            "final_return": self.final_return.to_dict() if self.final_return else None,
        }


@dataclass(frozen=True)
class StudyState:
    """The state of a study: its legal trials, each with its result so far, and its illegal points."""

    study: Study
    store: Store
    expansion: Expansion
    trials: tuple[Trial, ...]
    illegal: tuple[IllegalPoint, ...]
    results: dict[str, TrialResult]

    @property
    def is_finished(self) -> bool:
        if self.race is not None:
            return not self.race.next_trials()
        return all(self.results[trial.id].is_final for trial in self.trials)

    @cached_property
    def race(self) -> Race | None:
        """The race of the study, if it is one."""
        settings = self.study.race
        return None if settings is None else Race(self.study, settings, self.expansion, self.store)

    def point_summaries(self) -> list[PointSummary]:
        """Summarize each point over its seeds, in the order of the study."""
        groups: dict[str, list[Trial]] = {}
        for trial in self.trials:
            groups.setdefault(trial.group, []).append(trial)
        return [self._summarize_point(trials) for trials in groups.values()]

    def _summarize_point(self, trials: Sequence[Trial]) -> PointSummary:
        first, results = trials[0], [self.results[trial.id] for trial in trials]
        returns = [
            result.final_return for result in results if result.state == "done" and result.final_return is not None
        ]
        return PointSummary(
            first.point,
            first.plan.num_envs,
            first.plan.num_steps,
            [result.state for result in results],
            returns,
            summarize(returns) if returns else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values: the study, its trials with their results, and its illegal points."""
        return {
            "name": self.study.name,
            "out": str(self.store.path),
            "study": self.study.to_dict(),
            "evaluate_every": self.expansion.evaluate_every,
            "aligned": self.expansion.aligned,
            "trials": [
                {
                    "id": trial.id,
                    "point": trial.point,
                    "num_envs": trial.plan.num_envs,
                    "num_steps": trial.plan.num_steps,
                    "seed": trial.seed,
                    **vars(self.results[trial.id]),
                }
                for trial in self.trials
            ],
            "illegal": [point.to_dict() for point in self.illegal],
        }


def open_study(path: Path) -> StudyState:
    """Return the state of the study in a folder."""
    store = Store(path)
    study = store.study()
    return _read_state(study, store, expand(study))


def run_study(
    study: Study,
    out: Path,
    *,
    engine: EngineName = "local",
    jobs: int | None = None,
    address: str | None = None,
    command: str = "",
    on_start: Callable[[StudyState], None] | None = None,
    on_event: OnEvent | None = None,
) -> StudyState:
    """Run what is left of a study.

    `on_start` receives the state before the first trial, `on_event` everything that happens after it. The `command` is
    journaled together with the machine.
    """
    options = EngineOptions(jobs, address)
    ENGINES[engine].check(options)
    expansion, store = expand(study), Store(out)
    progress = store.progress()
    pending = [
        trial
        for trial in expansion.trials
        if trial.id not in progress or not progress[trial.id].is_final or store.has_damaged_probe(trial.id)
    ]
    refusals, peak_bytes = _check_environments(study, pending)
    store.begin(study)
    race = None if study.race is None else Race(study, study.race, expansion, store)
    if race is not None:
        race.retry_failed()
    for trial in pending:
        refusal = refusals.get(trial.group)
        if refusal is not None and (trial.id not in progress or progress[trial.id].result != refusal):
            store.record_end(trial.id, refusal)
    next_trials = no_more_trials if race is None else race.next_trials
    pending = [trial for trial in pending if trial.group not in refusals] if race is None else list(next_trials())
    if on_start is not None:
        on_start(_read_state(study, store, expansion))
    if pending:
        store.journal.append({"event": "run", "command": command, "engine": engine, **_describe_machine()})
        options = replace(options, peak_bytes=peak_bytes)
        ENGINES[engine].run(store, pending, options, on_event or (lambda _: None), next_trials)
    return _read_state(study, store, expansion)


def _describe_machine() -> dict[str, str]:
    """Describe this machine, and how busy it is with other processes."""
    here = machine()
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return {
        "machine": f"{platform.machine()}, {here.describe()}",
        "load": load,
    }


def _read_state(study: Study, store: Store, expansion: Expansion) -> StudyState:
    progress = store.progress()
    results = {
        trial.id: progress[trial.id].result if trial.id in progress else TrialResult("pending")
        for trial in expansion.trials
    }
    refused = {trial.group: trial for trial in expansion.trials if results[trial.id].state == "illegal"}
    illegal = [
        IllegalPoint(trial.point, results[trial.id].cause, results[trial.id].reason, results[trial.id].fix)
        for trial in refused.values()
    ]
    legal = tuple(trial for trial in expansion.trials if trial.group not in refused)
    return StudyState(study, store, expansion, legal, (*expansion.illegal, *illegal), results)


def _check_environments(study: Study, trials: Sequence[Trial]) -> tuple[dict[str, TrialResult], int]:
    """Return (group → why its environment cannot be made or does not fit, memory of the largest trial).

    If all are refused, so is the study.
    """
    from rollshape.training.setup import plan_run

    refusals, peak_bytes = {}, 0
    groups = {trial.group: trial for trial in trials}
    for trial in groups.values():
        try:
            memory = plan_run(trial.spec).memory
            peak_bytes = max(peak_bytes, memory.peak_bytes if memory else 0)
        except RequestError as error:
            refusals[trial.group] = TrialResult("illegal", error.rule, error.message, {"fix": error.fix})
    if refusals and len(refusals) == len(groups):
        first = next(iter(refusals.values()))
        raise RequestError("study", f"No point of {study.name} can be run: {first.reason}", first.fix)
    return refusals, peak_bytes
