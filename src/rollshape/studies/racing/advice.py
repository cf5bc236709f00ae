"""The answer of a race: the best candidate, those it is tied with, what was dropped when, and what that cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rollshape.errors import RunError
from rollshape.studies.racing.race import Candidate, Race
from rollshape.studies.racing.rule import USUAL_UPDATES, Decision, Rung

Status = Literal["best", "tied", "dropped"]
CROSSING = 0.9  # share of the range of estimates that a candidate may still make up at the start of a run


@dataclass(frozen=True)
class Ranked:
    """A candidate in the order of the race, with its score at the last rung it reached."""

    candidate: Candidate
    status: Status
    score: float | None  # None if it diverged or failed before the first rung
    low: float | None  # 95 % interval over seeds; None with one seed
    high: float | None
    timesteps: int  # of training per seed at which the score was measured
    share: float  # of the whole run
    num_seeds: int
    reason: str  # why it was dropped

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
            "timesteps": self.timesteps,
            "seeds": self.num_seeds,
            "status": self.status,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Advice:
    """What to use, and what it rests on. `share` is of training every candidate with every seed to the end."""

    ranking: tuple[Ranked, ...]
    rungs: tuple[Rung, ...]
    timesteps: int
    share: float

    @property
    def best(self) -> Ranked:
        return self.ranking[0]

    def label(self, ranked: Ranked) -> str:
        """Return the status in words: a shape that was compared only early is called "not ruled out", not tied."""
        is_early = ranked.status == "tied" and ranked.share < self.best.share
        return "not ruled out" if is_early else ranked.status

    def with_status(self, status: Status) -> list[Ranked]:
        return [ranked for ranked in self.ranking if ranked.status == status]


def advise_from(race: Race) -> Advice:
    """Return the answer of a race that is over."""
    decision, excluded = race.decision(), race.excluded()
    if not decision.rungs:
        reasons = "; ".join(f"{race.candidates[i].label} {reason}" for i, reason in list(excluded.items())[:3])
        raise RunError("race", f"No shape could be trained: {reasons}.", "Fix the cause; the same command resumes.")
    order = [candidate for rung in reversed(decision.rungs) for candidate in _leaving(decision, rung)]
    ranked = [_rank(race, decision, candidate, order[0]) for candidate in order]
    status_order = {"best": 0, "tied": 1, "dropped": 2}
    ranked.sort(key=lambda item: status_order[item.status])
    failed = [_rank_failed(race, candidate, reason) for candidate, reason in excluded.items()]
    spent = race.timesteps()
    return Advice((*ranked, *failed), decision.rungs, spent, spent / max(1, race.full_timesteps()))


def _leaving(decision: Decision, rung: Rung) -> tuple[int, ...]:
    """Return the candidates whose last rung this is, best first."""
    return rung.order if rung is decision.rungs[-1] else rung.dropped


def _rank(race: Race, decision: Decision, candidate: int, best: int) -> Ranked:
    rung = next(rung for rung in reversed(decision.rungs) if candidate in rung.scores)
    half = rung.noise.half_width(rung.num_seeds)
    score = rung.scores[candidate]
    gap, limit = rung.estimates[best] - rung.estimates[candidate], tie_limit(rung, decision.rungs)
    status: Status = "best" if candidate == best else "tied" if gap <= limit else "dropped"
    reason = "" if candidate == best else _compare(race, rung, candidate, best)
    return Ranked(
        race.candidates[candidate],
        status,
        score,
        None if math.isnan(half) else score - half,
        None if math.isnan(half) else score + half,
        race.end_of(candidate, rung.point),
        rung.share,
        rung.num_seeds,
        reason,
    )


def _compare(race: Race, rung: Rung, candidate: int, best: int) -> str:
    """Return `3.02 below 8×32 after 10% of the budget (1 seed)`."""
    leader, difference = race.candidates[best].label, rung.scores[best] - rung.scores[candidate]
    when = f"after {rung.share:.0%} of the budget ({rung.num_seeds} seed{'s' if rung.num_seeds > 1 else ''})"
    if difference >= 0:
        return f"{difference:.4g} below {leader} {when}"
    updates = race.candidates[candidate].plan.num_updates or 0
    return (
        f"{-difference:.4g} above {leader} {when}, but its {updates:,} updates in the whole run are further from the "
        f"usual optimum of about {USUAL_UPDATES}"
    )


def _rank_failed(race: Race, candidate: int, reason: str) -> Ranked:
    return Ranked(race.candidates[candidate], "dropped", None, None, None, 0, 0.0, 0, reason)


def tie_limit(rung: Rung, rungs: Sequence[Rung]) -> float:
    """Return the largest difference to the best at a rung that is no evidence of being worse at the end.

    The 95 % interval of a difference of two means, plus what candidates may make up in the rest of the run: a share of
    the distance from the lowest estimate of the first rung to the highest of this one (docs/advise.md). The noise of a
    rung with one seed is that of later rungs, if they compare equally long runs; if it is unknown at the end of a run,
    no difference is evidence.
    """
    known = [other.noise for other in (*rungs, rung) if other.point == rung.point and other.noise.degrees]
    if not known and rung.share == 1:
        return math.inf
    noise = math.sqrt(2) * known[-1].half_width(rung.num_seeds) if known else 0.0
    scale = max(rung.estimates.values()) - min(rungs[0].estimates.values())
    return noise + CROSSING * (1 - rung.share) * max(scale, 0.0)
