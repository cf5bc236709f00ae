"""The racing rule: which trials to train next and how far, as a pure function of the scores so far.

All candidates start with one seed and are compared once, after 10 % of the run. The best ones that two thirds of the
remaining budget pay for are trained to the end; the best of these get a second seed, then a third one, and so on. None
is dropped in the middle of a run: learning curves cross, and the budget is better spent on whole runs of few
candidates.

Early scores say little about final ones: some shapes learn fast at first and are overtaken, others get worse before
they get better. So after 10 % a prior counts twice as much as the scores: it prefers candidates that make about 1,024
updates in the whole run. The constants were chosen on nine tasks of benchmarks/advise.py and scored on four others
(docs/advise.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rollshape.studies.racing.noise import MIN_CANDIDATES, Noise, pooled_noise, with_expectation
from rollshape.studies.statistics import Floats

POINTS = 20  # equal parts of a whole run; it is scored after each
FIRST_SHARE = 0.1  # of a whole run, after which all candidates are compared; all later comparisons are at the end
SPENT_PER_RUNG = 2 / 3  # of the budget that is left
MIN_FINALISTS = 2
USUAL_UPDATES, UPDATES_SCALE = 1024, 2.0  # where the prior is highest, and the doublings after which it has fallen by 1
LOWEST_PRIOR = -4.0
PRIOR_WEIGHT = 2.0  # standard deviations of the early scores per standard deviation of the prior

ScoreOf = Callable[[int, int, int], float | None]  # (candidate, seed, part) → score, None if it is not trained so far


@dataclass(frozen=True)
class TrialRequest:
    """Train a candidate with a seed (both by index) up to the end of a part."""

    candidate: int
    seed: int
    point: int


@dataclass(frozen=True)
class Rung:
    """One comparison: scores of all candidates that were left, best first, and how many of them go on.

    `scores` are means over seeds, `estimates` what the order is by, `noise` is how much a score differs between seeds.
    """

    point: int
    share: float  # of a whole run
    num_seeds: int
    order: tuple[int, ...]
    scores: Mapping[int, float]
    estimates: Mapping[int, float]
    noise: Noise
    num_kept: int

    @property
    def dropped(self) -> tuple[int, ...]:
        return self.order[self.num_kept :]


@dataclass(frozen=True)
class Decision:
    """The rungs so far, and what to train for the next one; nothing if the race is over."""

    rungs: tuple[Rung, ...]
    requests: tuple[TrialRequest, ...]


def minimum_budget(num_seeds: int) -> float:
    """Return the share of the full cost that the first rung takes."""
    return FIRST_SHARE / num_seeds


def plan_rungs(num_seeds: int) -> list[tuple[float, int]]:
    """Return the comparisons of a race: the share of a whole run after which they are made, and the seeds."""
    return [(FIRST_SHARE, 1), *((1.0, count) for count in range(1, num_seeds + 1))]


def decide(
    updates: Sequence[int],
    num_seeds: int,
    budget: float,
    score_of: ScoreOf,
    excluded: Mapping[int, str] | None = None,
    points: int = POINTS,
) -> Decision:
    """Return the decision after the scores that are known.

    Args:
        updates: that each candidate makes in a whole run.
        num_seeds: seeds per candidate.
        budget: share of training all candidates with all seeds to the end.
        score_of: known scores; the rule asks only for what it requested before.
        excluded: candidates that diverged or failed; they are dropped at once.
        points: number of equal parts of a whole run.
    """
    out = excluded or {}
    left = budget * len(updates) * num_seeds * points
    field = [i for i in range(len(updates)) if i not in out]
    trained = np.zeros((len(updates), num_seeds), np.int64)
    rungs: list[Rung] = []
    plan = plan_rungs(num_seeds)
    for number, (share, count) in enumerate(plan):
        target = math.ceil(share * points - 1e-9)
        if rungs:
            so_far, last = trained[field[0], :count], rungs[-1].point
            point, kept = _afford(so_far, target, last, SPENT_PER_RUNG * left, left)
            rest = left - min(kept, len(field)) * _cost(so_far, point)
            if number == len(plan) - 1 or rest < MIN_FINALISTS * points:  # the rest would not pay for another seed
                point, kept = _afford(so_far, target, last, left, left)
            kept = min(kept, len(field))
            if kept < MIN_FINALISTS:
                break
            rungs[-1] = replace(rungs[-1], num_kept=kept)
            field = field[:kept]
        else:
            point = target
        requests = [TrialRequest(i, j, point) for i in field for j in range(count) if score_of(i, j, point) is None]
        if requests:
            return Decision(tuple(rungs), tuple(requests))
        left -= float(np.maximum(point - trained[field, :count], 0).sum())
        trained[field, :count] = np.maximum(trained[field, :count], point)
        table = np.array([[score_of(i, j, point) for j in range(count)] for i in field], np.float64)
        estimate = estimate_final(table, [updates[i] for i in field], is_early=number == 0)
        noise = with_expectation(pooled_noise(table), _wide_scores(rungs, table))
        rungs.append(_new_rung(field, table, estimate, noise, point, point / points))
        field = list(rungs[-1].order)
    return Decision(tuple(rungs), ())


def _cost(trained: NDArray[np.int64], point: int) -> int:
    """Return the parts that are missing until all seeds of a candidate have reached a point."""
    return int(np.maximum(point - trained, 0).sum())


def _afford(trained: NDArray[np.int64], target: int, last: int, spent: float, left: float) -> tuple[int, int]:
    """Return (part up to which to train, how many candidates `spent` pays for).

    If it does not pay for two, two are trained as far as all that is `left` allows; 1 if it does not even allow that.
    """
    if _cost(trained, target) == 0:
        return last, 1
    affordable = int((spent + 1e-9) // _cost(trained, target))
    if affordable >= MIN_FINALISTS:
        return target, affordable
    for point in range(target, min(last, target - 1), -1):  # more seeds are compared at the same point
        if MIN_FINALISTS * _cost(trained, point) <= left + 1e-9:
            return point, MIN_FINALISTS
    return last, 1


def _wide_scores(rungs: Sequence[Rung], table: Floats) -> Floats:
    """Return the scores of the last comparison of at least four candidates, those of `table` if it has as many."""
    means: Floats = table.mean(axis=1)
    wide = [rung for rung in rungs if len(rung.order) >= MIN_CANDIDATES]
    if len(means) >= MIN_CANDIDATES or not wide:
        return means
    return np.array(list(wide[-1].scores.values()))


def _new_rung(field: Sequence[int], table: Floats, estimate: Floats, noise: Noise, point: int, share: float) -> Rung:
    """Order candidates by an estimate; the table has their scores [candidates, seeds]."""
    means = table.mean(axis=1)
    order = sorted(range(len(field)), key=lambda i: (-estimate[i], field[i]))
    return Rung(
        point,
        share,
        table.shape[1],
        tuple(field[i] for i in order),
        {candidate: float(means[i]) for i, candidate in enumerate(field)},
        {candidate: float(estimate[i]) for i, candidate in enumerate(field)},
        noise,
        len(field),
    )


def estimate_final(table: ArrayLike, updates: Sequence[int], *, is_early: bool) -> Floats:
    """Return by what candidates are ordered, given their scores [candidates, seeds] so far.

    Scores at the end of a run are their means over seeds. Early ones are m + 2·s·p, with the means m, their standard
    deviation s, and the prior p: −(log₂(updates / 1,024) / 2)², at least −4, standardized.
    """
    means: Floats = np.asarray(table, np.float64).mean(axis=1)
    if not is_early:
        return means
    doublings = np.log2(np.maximum(np.asarray(updates, np.float64), 1.0) / USUAL_UPDATES)
    height = np.maximum(-((doublings / UPDATES_SCALE) ** 2), LOWEST_PRIOR)
    prior = (height - height.mean()) / max(float(height.std()), 1e-9)
    result: Floats = means + PRIOR_WEIGHT * means.std() * prior
    return result
