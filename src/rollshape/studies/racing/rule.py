"""The racing rule: which trials to train next and how far, as a pure function of the scores so far.

Successive halving on smoothed scores. All candidates start with a third of the seeds. After each rung the rest of the
budget is divided equally over the rungs that are left, and the best candidates that it pays for go on. If there is a
rest at the end, the finalists get more seeds.

The order is by a Gaussian process over (log₂ N, log₂ T), not by the scores themselves: two shapes that differ by one
doubling learn similarly, so each of them is evidence about the other. Its mean prefers shapes that make about 256
updates in the whole run, and an early score counts as a noisy measurement of the final one; both fade as the race goes
on. The constants were chosen on one half of the tasks of benchmarks/advise.py and scored on the other half
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
RUNGS = (0.1, 0.4, 1.0, 1.0)  # shares of a whole run after which candidates are compared
SEED_SHARES = (1 / 3, 1 / 3, 2 / 3, 1.0)  # of the seeds, at each rung
MIN_FINALISTS = 2
LENGTH_SCALE = 2.0  # doublings of N or T over which scores are similar
SHARED_VARIANCE = 0.7  # of the variance between candidates, the part that neighbors have in common
UNKNOWN_NOISE = 0.25  # variance between seeds as a share of that between candidates, as long as there is one seed
CHANGING_VARIANCE = 2.0  # of scores at the start of a run around the final ones, relative to that between candidates
USUAL_UPDATES, UPDATES_SCALE = 256, 2.0  # where the prior is highest, and the doublings after which it has fallen by 1
PRIOR_WEIGHT = 0.5  # standard deviations of the scores per standard deviation of the prior, at the start of a run

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

    `scores` are means over seeds, `smoothed` what the order is by, `noise` is how much a score differs between seeds.
    """

    point: int
    share: float  # of a whole run
    num_seeds: int
    order: tuple[int, ...]
    scores: Mapping[int, float]
    smoothed: Mapping[int, float]
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
    return RUNGS[0] * seeds_at(0, num_seeds) / num_seeds


def seeds_at(rung: int, num_seeds: int) -> int:
    """Return the number of seeds that candidates have at a rung."""
    return max(1, math.ceil(SEED_SHARES[rung] * num_seeds - 1e-9))


def decide(
    coordinates: Sequence[Sequence[float]],
    updates: Sequence[int],
    num_seeds: int,
    budget: float,
    score_of: ScoreOf,
    excluded: Mapping[int, str] | None = None,
    points: int = POINTS,
) -> Decision:
    """Return the decision after the scores that are known.

    Args:
        coordinates: of each candidate, log₂ of its sizes.
        updates: that each candidate makes in a whole run.
        num_seeds: seeds per candidate.
        budget: share of training all candidates with all seeds to the end.
        score_of: known scores; the rule asks only for what it requested before.
        excluded: candidates that diverged or failed; they are dropped at once.
        points: number of equal parts of a whole run.
    """
    out = excluded or {}
    left = budget * len(coordinates) * num_seeds * points
    field = [i for i in range(len(coordinates)) if i not in out]
    trained = np.zeros((len(coordinates), num_seeds), np.int64)
    rungs: list[Rung] = []
    for number, target in enumerate(math.ceil(share * points - 1e-9) for share in RUNGS):
        count = seeds_at(number, num_seeds)
        if rungs:
            parts = max(1, len(RUNGS) - 1 - number)  # the last rung only has what is left
            point, kept = _afford(trained[field[0], :count], target, rungs[-1].point, left, parts)
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
        estimate = smooth(table, [coordinates[i] for i in field], [updates[i] for i in field], point / points)
        noise = with_expectation(pooled_noise(table), _wide_scores(rungs, table))
        rungs.append(_new_rung(field, table, estimate, noise, point, point / points))
        field = list(rungs[-1].order)
    return Decision(tuple(rungs), ())


def _afford(trained: NDArray[np.int64], target: int, last: int, left: float, rungs_left: int) -> tuple[int, int]:
    """Return (part up to which to train, how many candidates can be trained so far, 1 if no two can)."""

    def cost(point: int) -> int:
        return int(np.maximum(point - trained, 0).sum())

    if cost(target) == 0:
        return last, 1
    affordable = int((left / rungs_left + 1e-9) // cost(target))
    if affordable >= MIN_FINALISTS:
        return target, affordable
    for point in range(target, last, -1):
        if MIN_FINALISTS * cost(point) <= left + 1e-9:
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


def smooth(table: ArrayLike, coordinates: Sequence[Sequence[float]], updates: Sequence[int], share: float) -> Floats:
    """Return the mean of a Gaussian process at the candidates, given their scores [candidates, seeds] so far.

    The variance between candidates is estimated from the scores; a part of it is shared between neighbors, the rest is
    each candidate's own. Fewer than four candidates have their mean scores.
    """
    scores, places = np.asarray(table, np.float64), np.asarray(coordinates, np.float64)
    means, noise = scores.mean(axis=1), pooled_noise(scores)
    total = float(means.var())
    seed_variance = (noise.variance if noise.degrees else UNKNOWN_NOISE * total) / scores.shape[1]
    between = max(total - seed_variance, 1e-3 * total)
    if len(means) < MIN_CANDIDATES or between <= 0:
        return np.asarray(means)
    squares = ((places[:, None] - places[None]) ** 2).sum(axis=-1)
    shared = SHARED_VARIANCE * np.exp(-squares / (2 * LENGTH_SCALE**2))
    covariance = between * (shared + (1 - SHARED_VARIANCE) * np.eye(len(means)))
    variance = seed_variance + CHANGING_VARIANCE * (1 - share) * between
    center = means.mean() + PRIOR_WEIGHT * (1 - share) * math.sqrt(between) * _prior(updates)
    weights = np.linalg.solve(covariance + (variance + 1e-9 * between) * np.eye(len(means)), means - center)
    result: Floats = center + covariance @ weights
    return result


def _prior(updates: Sequence[int]) -> Floats:
    """Return the prior of each candidate, with mean 0 and standard deviation 1 unless all are equal."""
    doublings = np.log2(np.maximum(np.asarray(updates, np.float64), 1.0) / USUAL_UPDATES)
    height = np.maximum(-((doublings / UPDATES_SCALE) ** 2), -4.0)
    result: Floats = (height - height.mean()) / max(float(height.std()), 1e-9)
    return result
