"""A race in the folder of a study: what the rule requests becomes trials, and what they logged becomes scores.

Nothing about the race is stored. Every decision is a function of the journal and of the metrics of the trials, so a
race that was killed continues with the same decisions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rollshape.geometry.plan import Plan
from rollshape.studies.curves import Curve, learning_curve
from rollshape.studies.documents import read_run
from rollshape.studies.metrics import MetricsRow
from rollshape.studies.racing.rule import POINTS, Decision, Progress, TrialRequest, decide
from rollshape.studies.racing.score_model import Features
from rollshape.studies.racing.scores import score_curve
from rollshape.studies.racing.settings import RaceSettings
from rollshape.studies.store import Store, TrialProgress
from rollshape.studies.study import Study
from rollshape.studies.trials import Expansion, Trial, format_point
from rollshape.training.rundir import RunDirectory
from rollshape.training.spec import Spec


@dataclass(frozen=True)
class Candidate:
    """A point of the study with its trials, one per seed."""

    trials: tuple[Trial, ...]

    @property
    def plan(self) -> Plan:
        return self.trials[0].plan

    @property
    def spec(self) -> Spec:
        return self.trials[0].spec

    @property
    def point(self) -> dict[str, Any]:
        return self.trials[0].point

    @property
    def label(self) -> str:
        """The shape, and what else the point sets."""
        return ", ".join(filter(None, (self.trials[0].shape, self._settings)))

    @property
    def features(self) -> Features:
        plan = self.plan
        return Features(plan.num_envs, plan.num_steps, plan.num_updates or 1, self._settings)

    @property
    def _settings(self) -> str:
        rest = {name: value for name, value in self.point.items() if name not in ("num_envs", "num_steps")}
        return format_point(rest) if rest else ""


class Race:
    """The race of a study. `next_trials` is what an engine runs, batch by batch, until there is none."""

    def __init__(self, study: Study, settings: RaceSettings, expansion: Expansion, store: Store) -> None:
        self.settings, self.store, self.num_seeds = settings, store, len(study.seeds)
        groups: dict[str, list[Trial]] = {}
        for trial in expansion.trials:
            groups.setdefault(trial.group, []).append(trial)
        self.candidates = [Candidate(tuple(trials)) for trials in groups.values()]
        self._failures: Mapping[str, int] = {}
        self._curves: dict[str, tuple[int, Curve, list[MetricsRow]]] = {}

    def retry_failed(self) -> None:
        """Try trials that failed in an earlier run of the study once more, instead of dropping their candidates."""
        self._failures = {name: progress.failures for name, progress in self.store.progress().items()}

    def next_trials(self) -> Sequence[Trial]:
        """Return the trials to train next, each up to its next pause; none if the race is over."""
        return [self._to_trial(request) for request in self.decision().requests]

    def decision(self) -> Decision:
        """Return what the rule decides on all trials so far."""
        progress = self.store.progress()
        return decide(
            [candidate.features for candidate in self.candidates],
            self.num_seeds,
            self.settings.budget * self.full_timesteps(),
            _KnownTrials(self, progress),
            self._excluded(progress),
            first_part=self.settings.objective == "seconds",
        )

    def excluded(self) -> dict[int, str]:
        """Return candidate → why it cannot go on: a seed diverged or failed, or the shape does not fit."""
        return self._excluded(self.store.progress())

    def timesteps(self) -> int:
        """Return the timesteps that all trials were trained for."""
        progress = self.store.progress()
        return sum(self.trained(progress, trial) for candidate in self.candidates for trial in candidate.trials)

    def trained(self, progress: Mapping[str, TrialProgress], trial: Trial) -> int:
        """Return the timesteps that a trial was trained for."""
        return max(progress[trial.id].result.timesteps, self._logged(trial)) if trial.id in progress else 0

    def full_timesteps(self) -> int:
        """Return the timesteps of training every candidate with every seed to the end."""
        return sum(self.num_seeds * (candidate.plan.actual_timesteps or 0) for candidate in self.candidates)

    def end_of(self, candidate: int, point: int) -> int:
        """Return the timesteps after which a part ends: the nearest end of a logging interval, where trials pause.

        If candidates are compared after equal seconds, a slower one has fewer timesteps: as many as it makes while the
        fastest makes the whole budget. Speeds are those of the first part.
        """
        total = max(item.plan.total_timesteps or 0 for item in self.candidates)
        speeds = self._speeds() if self.settings.objective == "seconds" else {}
        share = point / POINTS * (speeds.get(candidate, 1.0) / max(speeds.values()) if speeds else 1.0)
        return _pause_after(self.candidates[candidate].trials[0], math.ceil(total * share), is_whole=share == 1.0)

    def _speeds(self) -> dict[int, float]:
        """Steps per second of every candidate in its first part; empty as long as one of them is not known.

        A candidate that failed later keeps its speed: what the others are compared after must not change.
        """
        excluded, speeds = self.excluded(), {}
        for i, candidate in enumerate(self.candidates):
            rows = self._read(candidate.trials[0])[1]
            if rows and rows[0].sps:
                speeds[i] = float(rows[0].sps)
            elif i not in excluded:
                return {}
        return speeds

    def _to_trial(self, request: TrialRequest) -> Trial:
        candidate = self.candidates[request.candidate]
        until = self.end_of(request.candidate, request.point)
        is_whole = until >= (candidate.plan.actual_timesteps or 0)
        return replace(candidate.trials[request.seed], until=None if is_whole else until)

    def score(self, progress: Mapping[str, TrialProgress], request: TrialRequest) -> float | None:
        """Return the score of a trial at the end of a part; None if it was not trained so far, or diverged."""
        trial, end = (
            self.candidates[request.candidate].trials[request.seed],
            self.end_of(request.candidate, request.point),
        )
        known = progress.get(trial.id)
        is_whole = end >= (trial.plan.actual_timesteps or 0)
        if known is None or known.result.state == "diverged" or not known.result.has_reached(None if is_whole else end):
            return None
        return score_curve(self._read(trial)[0], end, self.settings.objective)

    def _excluded(self, progress: Mapping[str, TrialProgress]) -> dict[int, str]:
        excluded = {}
        for i, candidate in enumerate(self.candidates):
            for trial in candidate.trials:
                known = progress.get(trial.id, TrialProgress())
                is_new = known.failures > self._failures.get(trial.id, 0)
                if known.result.state in ("diverged", "illegal") or (known.result.state == "failed" and is_new):
                    excluded[i] = f"{known.result.state}: {known.result.reason}"
                    break
        return excluded

    def _logged(self, trial: Trial) -> int:
        rows = self._read(trial)[1]
        return rows[-1].timesteps if rows else 0

    def _read(self, trial: Trial) -> tuple[Curve, list[MetricsRow]]:
        """Read the metrics of a trial; again only if it was trained on since."""
        directory = RunDirectory(self.store.run_dir(trial.id))
        if not directory.exists():
            return Curve(np.zeros(0), np.zeros(0)), []
        size = directory.metrics.path.stat().st_size if directory.metrics.path.exists() else 0
        if trial.id not in self._curves or self._curves[trial.id][0] != size:
            read_run(directory)  # checks run.json
            rows = [MetricsRow.from_dict(row) for row in directory.rows()]
            curve = learning_curve(rows, "timesteps", trial.plan.gradient_steps_per_update)
            self._curves[trial.id] = size, curve, rows
        return self._curves[trial.id][1:]


class _KnownTrials(Progress):
    """What the rule may know, at one moment; costs are timesteps."""

    def __init__(self, race: Race, progress: Mapping[str, TrialProgress]) -> None:
        self._race, self._progress = race, progress

    def score(self, request: TrialRequest) -> float | None:
        return self._race.score(self._progress, request)

    def cost(self, candidate: int, point: int) -> float:
        return self._race.end_of(candidate, point)

    def spent(self, candidate: int, seed: int) -> float:
        return self._race.trained(self._progress, self._race.candidates[candidate].trials[seed])


def _pause_after(trial: Trial, timesteps: int, is_whole: bool) -> int:
    """Return the timesteps at the end of the nearest logging interval, at least of the first that is scored.

    A trial pauses only there. The nearest and not the next one: if rollouts do not divide a part, an interval ends a
    few steps before the part does, and the next one would train a whole part more.
    """
    plan, every = trial.plan, trial.spec.log_every or 1
    whole = plan.num_updates or 1
    scored = math.ceil(plan.updates_until(trial.spec.eval_every or 1) / every)
    intervals = max(scored, round(plan.updates_until(timesteps) / every))
    return (whole if is_whole else min(intervals * every, whole)) * plan.rollout_size
