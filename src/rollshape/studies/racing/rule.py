"""The racing rule: which trials to train next, as a pure function of the scores so far.

The budget pays for a few whole runs, which are trained in pairs of two candidates. After each pair, a model of the
scores (`score_model`) estimates all candidates, also those that were not trained. The next pair are the candidates that
could be the best: those with the highest estimate plus 1.5 of its standard deviations. Later pairs can train a
candidate again, with another seed. The advice is the trained candidate with the highest estimate.

No run is stopped early, because early scores say little about final ones: some shapes learn fast at first and are
overtaken, others get worse before they get better. Only if the budget pays for fewer than three whole runs, all runs
are shorter. Rules that stop runs early have a higher regret (docs/advise.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rollshape.errors import RequestError
from rollshape.studies.racing.score_model import Estimates, Features, ScoreModel
from rollshape.studies.racing.settings import DEFAULT_BUDGET

POINTS = 20  # equal parts of a whole run; it is evaluated after each
TRIALS_PER_BATCH = 2  # whatever the number of workers, so that the answer does not depend on it
MIN_RUNS = 3  # that the budget should pay for
MIN_SHARE = 0.1  # of a whole run, below which its score says nothing
OPTIMISM = 1.5  # standard deviations that are added to an estimate to choose what to train

ScoreOf = Callable[[int, int, int], float | None]  # (candidate, seed, part) → score, None if it is not trained so far


@dataclass(frozen=True)
class TrialRequest:
    """Train a candidate with a seed (both by index) up to the end of a part."""

    candidate: int
    seed: int
    point: int


class ScoredRun(NamedTuple):
    """A run of the race and its score."""

    candidate: int
    seed: int
    score: float


@dataclass(frozen=True)
class Batch:
    """Runs that were chosen together, and the estimates of all candidates after them."""

    runs: tuple[ScoredRun, ...]
    estimates: Estimates


@dataclass(frozen=True)
class Decision:
    """The runs so far, and what to train next; nothing if the race is over."""

    point: int  # part up to which runs are trained
    batches: tuple[Batch, ...]
    requests: tuple[TrialRequest, ...]
    failed: frozenset[int] = frozenset()  # candidates that cannot be trained

    @property
    def runs(self) -> list[ScoredRun]:
        return [run for batch in self.batches for run in batch.runs]

    @property
    def share(self) -> float:
        """How much of a whole run was trained."""
        return self.point / POINTS

    @property
    def best(self) -> int | None:
        """The trained candidate with the highest estimate; None before the first run."""
        trained = {run.candidate for run in self.runs} - self.failed
        if not trained:
            return None
        mean = self.batches[-1].estimates.mean
        return max(sorted(trained), key=lambda candidate: float(mean[candidate]))


def check_budget(budget: float, num_candidates: int, num_seeds: int) -> None:
    """Refuse a budget that does not pay for a race, or that is more than everything."""
    least = _fewest_runs(num_candidates, num_seeds) * MIN_SHARE / max(1, num_candidates * num_seeds)
    if not least - 1e-9 <= budget <= 1:
        raise RequestError(
            "number-range",
            f"budget {budget:g} is not between {least:.3g} (short runs of three shapes) and 1, as a share of training "
            f"{num_candidates} candidates with {num_seeds} seeds to the end.",
            f"Use for example a budget of {max(DEFAULT_BUDGET, math.ceil(100 * least) / 100):g}.",
        )


def decide(
    candidates: Sequence[Features],
    num_seeds: int,
    budget: float,
    score_of: ScoreOf,
    failed: Mapping[int, float] | None = None,
    points: int = POINTS,
    first_part: bool = False,
) -> Decision:
    """Return the decision after the scores that are known.

    Args:
        candidates: what distinguishes them.
        num_seeds: seeds per candidate, at most.
        budget: share of training all candidates with all seeds to the end.
        score_of: known scores; the rule asks only for what it requested before.
        failed: candidates that diverged or cannot be trained, and the parts that this has cost.
        points: number of equal parts of a whole run.
        first_part: train the first part of all candidates before anything else, such as to know their speeds.
    """
    left, lost = budget * len(candidates) * num_seeds * points, failed or {}
    if first_part:
        left -= len(candidates)
        first = [i for i in range(len(candidates)) if i not in lost and score_of(i, 0, 1) is None]
        if first:
            return Decision(1, (), tuple(TrialRequest(i, 0, 1) for i in first))
    point = min(points, max(1, int(left / _fewest_runs(len(candidates), num_seeds) + 1e-9)))
    race = _Race(ScoreModel(candidates), len(candidates), num_seeds, point, left)
    while requests := race.choose():
        scores = {request: score_of(request.candidate, request.seed, request.point) for request in requests}
        unknown = [request for request in requests if scores[request] is None]
        race.drop({request.candidate: lost[request.candidate] for request in unknown if request.candidate in lost})
        missing = [request for request in unknown if request.candidate not in lost]
        if missing:
            return race.decision(missing)
        race.add([ScoredRun(run.candidate, run.seed, score) for run, score in scores.items() if score is not None])
    return race.decision([])


class _Race:
    """A race up to now, as the known scores repeat it."""

    def __init__(self, model: ScoreModel, num_candidates: int, num_seeds: int, point: int, left: float) -> None:
        self.model, self.num_seeds, self.point, self.left = model, num_seeds, point, left
        self.num_runs = [0] * num_candidates
        self.failed: set[int] = set()
        self.batches: list[Batch] = []

    def choose(self) -> list[TrialRequest]:
        """Return the next runs; none if the budget is spent."""
        chosen: list[int] = []
        while len(chosen) < TRIALS_PER_BATCH and self.left + 1e-9 >= (len(chosen) + 1) * self.point:
            free = [i for i, count in enumerate(self.num_runs)
                    if count < self.num_seeds and i not in self.failed and i not in chosen]  # fmt: skip
            if not free:
                break
            estimates = self._estimate(chosen)
            hopes = estimates.mean + OPTIMISM * estimates.std
            chosen.append(max(free, key=lambda candidate: float(hopes[candidate])))
        return [TrialRequest(candidate, self.num_runs[candidate], self.point) for candidate in chosen]

    def drop(self, failed: Mapping[int, float]) -> None:
        """Take out candidates that cannot be trained, each with the parts that this has cost."""
        self.failed |= set(failed)
        self.left -= sum(failed.values())

    def add(self, runs: Sequence[ScoredRun]) -> None:
        """Add runs that were chosen together."""
        for run in runs:
            self.num_runs[run.candidate] += 1
        self.left -= len(runs) * self.point
        if runs:
            self.batches.append(Batch(tuple(runs), self._estimate(new=runs)))

    def decision(self, requests: Sequence[TrialRequest]) -> Decision:
        return Decision(self.point, tuple(self.batches), tuple(requests), frozenset(self.failed))

    def _estimate(self, planned: Sequence[int] = (), new: Sequence[ScoredRun] = ()) -> Estimates:
        runs = [run for batch in self.batches for run in batch.runs]
        return self.model.estimate([(run.candidate, run.score) for run in (*runs, *new)], planned)


def _fewest_runs(num_candidates: int, num_seeds: int) -> int:
    return min(MIN_RUNS, num_candidates * num_seeds)
