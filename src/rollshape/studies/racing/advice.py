"""The answer of a race: the best candidate, those it is tied with, those to avoid, and what that cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from rollshape.errors import RunError
from rollshape.studies.racing.race import Candidate, Race
from rollshape.studies.racing.rule import POINTS, Decision

Status = Literal["best", "tied", "dropped"]


@dataclass(frozen=True)
class Ranked:
    """A candidate in the order of the race, with the estimate of its score from all runs of the race."""

    candidate: Candidate
    status: Status
    score: float | None  # None if it diverged or failed; without a scale, the mean of its own runs
    low: float | None  # 95 % interval; None if all runs have the same score
    high: float | None
    measured: float | None  # mean score of its own runs; None if it was not trained
    num_seeds: int
    timesteps: int  # of training per seed
    reason: str  # how it compares with the best, or why it failed
    ruled_out_after: int | None = None  # runs of the race, after which it was worse than the best; None if it is not

    @property
    def label(self) -> str:
        """The status in words: a shape that was not trained is called "not ruled out", not tied."""
        return "not ruled out" if self.status == "tied" and self.num_seeds == 0 else self.status

    def to_dict(self) -> dict[str, Any]:
        plan = self.candidate.plan
        return {
            "num_envs": plan.num_envs,
            "num_steps": plan.num_steps,
            "minibatch_size": plan.minibatch_size,
            "num_epochs": plan.num_epochs,
            "learning_rate": self.candidate.spec.learning_rate,
            "score": self.score,
            "low": self.low,
            "high": self.high,
            "measured": self.measured,
            "timesteps": self.timesteps,
            "seeds": self.num_seeds,
            "status": self.status,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Advice:
    """What to use, and what it rests on. `share` is of training every candidate with every seed to the end."""

    ranking: tuple[Ranked, ...]
    run_share: float  # of a whole run, that every trained candidate was trained for
    timesteps: int
    share: float

    @property
    def best(self) -> Ranked:
        return self.ranking[0]

    @property
    def num_runs(self) -> int:
        return sum(ranked.num_seeds for ranked in self.ranking)

    def with_status(self, status: Status) -> list[Ranked]:
        return [ranked for ranked in self.ranking if ranked.status == status]


def advise_from(race: Race) -> Advice:
    """Return the answer of a race that is over."""
    decision, excluded = race.decision(), race.excluded()
    best = decision.best
    if best is None:
        reasons = "; ".join(
            f"{race.candidates[i].label} {reason.rstrip('.')}" for i, reason in list(excluded.items())[:3]
        )
        if not reasons:
            raise RunError("race", "The budget of the race does not pay for a run.", "Use a larger budget.")
        raise RunError("race", f"No shape could be trained: {reasons}.", "Fix the cause; the same command resumes.")
    standing = decision.rounds[-1].estimates.standing
    others = [i for i in range(len(race.candidates)) if i not in excluded and i != best]
    ranked = [_rank(race, decision, i, best) for i in (best, *sorted(others, key=lambda i: (-standing[i], i)))]
    status_order = {"best": 0, "tied": 1, "dropped": 2}
    ranked.sort(key=lambda item: status_order[item.status])
    failed = [
        Ranked(race.candidates[i], "dropped", None, None, None, None, 0, 0, reason) for i, reason in excluded.items()
    ]
    spent = race.timesteps()
    return Advice((*ranked, *failed), decision.share, spent, spent / max(1, race.full_timesteps()))


def _rank(race: Race, decision: Decision, candidate: int, best: int) -> Ranked:
    estimates = decision.rounds[-1].estimates
    scores = [run.score for run in decision.runs if run.candidate == candidate]
    measured = sum(scores) / len(scores) if scores else None
    score, half = (
        (float(estimates.mean[candidate]), estimates.half_width(candidate))
        if estimates.degrees
        else (measured, math.nan)
    )
    ruled_out_after = None if candidate == best else _runs_until_ruled_out(decision, candidate, best)
    status: Status = "best" if candidate == best else "tied" if ruled_out_after is None else "dropped"
    return Ranked(
        race.candidates[candidate],
        status,
        score,
        None if score is None or math.isnan(half) else score - half,
        None if score is None or math.isnan(half) else score + half,
        measured,
        len(scores),
        race.end_of(candidate, round(decision.share * POINTS)) if scores else 0,
        "" if candidate == best else _compare(race, decision, candidate, best, ruled_out_after),
        ruled_out_after,
    )


def _compare(race: Race, decision: Decision, candidate: int, best: int, ruled_out_after: int | None) -> str:
    """Return `estimated 3.02 below 8×32; ruled out after 4 of 7 runs`, with what the estimate rests on."""
    estimates, leader = decision.rounds[-1].estimates, race.candidates[best].label
    is_trained = any(run.candidate == candidate for run in decision.runs)
    if estimates.degrees == 0:
        return f"all runs have the same score as {leader}" if is_trained else "not trained"
    difference = float(estimates.mean[best] - estimates.mean[candidate])
    words = f"estimated {abs(difference):.4g} {'below' if difference >= 0 else 'above'} {leader}"
    basis = "" if is_trained else ", from similar shapes and its number of updates"
    when = "" if ruled_out_after is None else f"; ruled out after {ruled_out_after} of {len(decision.runs)} runs"
    return words + basis + when


def _runs_until_ruled_out(decision: Decision, candidate: int, best: int) -> int | None:
    """Return after how many runs a candidate was, and stayed, worse than the best; None if it is not."""
    result, count = None, len(decision.runs)
    for round_ in reversed(decision.rounds):
        if not round_.estimates.is_worse(candidate, best):
            break
        result = count
        count -= len(round_.runs)
    return result
