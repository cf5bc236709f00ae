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
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rollshape.errors import RequestError
from rollshape.studies.racing.score_model import Estimates, Features, ScoreModel
from rollshape.studies.racing.settings import DEFAULT_BUDGET

POINTS = 20  # equal parts of a whole run; it is evaluated after each
TRIALS_PER_ROUND = 2  # whatever the number of workers, so that the answer does not depend on it
MIN_RUNS = 3  # that the budget should pay for
MIN_SHARE = 0.1  # of a whole run, below which its score says nothing
OPTIMISM = 1.5  # standard deviations that are added to an estimate to choose what to train
DIGITS = 9  # to which hopes are compared, so that rounding errors decide nothing


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


class Progress(Protocol):
    """What is known of the trials of a race. Costs and budgets are in timesteps, or in any other unit."""

    def score(self, request: TrialRequest) -> float | None:
        """Return the score of a trial at the end of a part; None if it is not trained so far, or has failed."""

    def cost(self, candidate: int, point: int) -> float:
        """Return what it costs to train a trial up to the end of a part."""

    def spent(self, candidate: int, seed: int) -> float:
        """Return what a trial has cost so far."""


@dataclass(frozen=True)
class Round:
    """Runs that were chosen together, and the estimates of all candidates after them."""

    runs: tuple[ScoredRun, ...]
    estimates: Estimates


@dataclass(frozen=True)
class Decision:
    """The runs so far, and what to train next; nothing if the race is over."""

    share: float  # of a whole run that is trained
    rounds: tuple[Round, ...]
    requests: tuple[TrialRequest, ...]
    failed: frozenset[int] = frozenset()  # candidates that cannot be trained

    @property
    def runs(self) -> list[ScoredRun]:
        return [run for round_ in self.rounds for run in round_.runs]

    @property
    def best(self) -> int | None:
        """The trained candidate with the highest estimate; None if there is none."""
        trained = {run.candidate for run in self.runs} - self.failed
        if not trained:
            return None
        standing = self.rounds[-1].estimates.standing
        return max(sorted(trained), key=lambda candidate: round(float(standing[candidate]), DIGITS))


def check_budget(budget: float, num_candidates: int, num_seeds: int, *, first_part: bool = False) -> None:
    """Refuse a budget that does not pay for a race, or that is more than everything."""
    if budget > 1:
        raise RequestError("number-range", f"budget {budget:g} is more than training everything.", "Use at most 1.")
    runs = min(MIN_RUNS, num_candidates * num_seeds)
    least = runs * MIN_SHARE / max(1, num_candidates * num_seeds) + (1 / POINTS / num_seeds if first_part else 0.0)
    if budget < least - 1e-9:
        raise RequestError(
            "number-range",
            f"budget {budget:g} is too small: the shortest race ({runs} runs of a tenth of total_timesteps) costs "
            f"{least:.3g} of training all {num_candidates} candidates with {num_seeds} seeds.",
            f"Use for example a budget of {max(DEFAULT_BUDGET, math.ceil(100 * least) / 100):g}.",
        )


def decide(
    candidates: Sequence[Features],
    num_seeds: int,
    budget: float,
    progress: Progress,
    failed: Collection[int] = (),
    points: int = POINTS,
    *,
    first_part: bool = False,
) -> Decision:
    """Return the decision after the scores that are known.

    Args:
        candidates: what distinguishes them.
        num_seeds: seeds per candidate, at most.
        budget: of the whole race, in the unit of `progress.cost`.
        progress: scores and costs; the rule asks only for scores of what it requested before.
        failed: candidates of which a trial diverged or cannot be trained.
        points: number of equal parts of a whole run.
        first_part: train the first part of all candidates before anything else, such as to know their speeds.
    """
    everyone = range(len(candidates))
    if first_part:
        first = [TrialRequest(i, 0, 1) for i in everyone if i not in failed]
        if missing := [request for request in first if progress.score(request) is None]:
            return Decision(1 / points, (), tuple(missing))
    reserved = sum(progress.cost(i, 1) for i in everyone) if first_part else 0.0
    point = _run_length(progress, len(candidates), num_seeds, budget - reserved, points)
    race, share, gone = _Race(candidates, num_seeds, budget, progress, point), point / points, frozenset(failed)
    while requests := race.choose():
        scores = {request: progress.score(request) for request in requests}
        unknown = [request for request in requests if scores[request] is None]
        race.dropped |= {request.candidate for request in unknown if request.candidate in failed}
        if missing := [request for request in unknown if request.candidate not in failed]:
            return Decision(share, tuple(race.rounds), tuple(missing), gone)
        race.add([ScoredRun(run.candidate, run.seed, score) for run, score in scores.items() if score is not None])
    return Decision(share, tuple(race.rounds), (), gone)


def _run_length(progress: Progress, num_candidates: int, num_seeds: int, budget: float, points: int) -> int:
    """Return the parts to train: all, unless the budget does not pay for three whole runs."""
    num_runs = min(MIN_RUNS, num_candidates * num_seeds)
    for point in range(points, 1, -1):
        mean_cost = sum(progress.cost(i, point) for i in range(num_candidates)) / num_candidates
        if num_runs * mean_cost <= budget + 1e-9:
            return point
    return 1


class _Race:
    """A race up to now, repeated from the known scores."""

    def __init__(
        self, candidates: Sequence[Features], num_seeds: int, budget: float, progress: Progress, point: int
    ) -> None:
        self.model, self.num_seeds, self.progress, self.point = ScoreModel(candidates), num_seeds, progress, point
        self.num_runs = [0] * len(candidates)
        self.dropped: set[int] = set()
        self.rounds: list[Round] = []
        spent = [progress.spent(i, seed) for i in range(len(candidates)) for seed in range(num_seeds)]
        self._left = budget - sum(spent)

    def choose(self) -> list[TrialRequest]:
        """Return the next runs; none if the budget is spent. Runs that are known cost nothing any more."""
        chosen: list[TrialRequest] = []
        left = self._left
        while len(chosen) < TRIALS_PER_ROUND:
            taken = [request.candidate for request in chosen]
            open_ = {request: cost for request, cost in self._affordable(left) if request.candidate not in taken}
            if not open_:
                break
            estimates = self._estimate(taken)
            hopes = estimates.standing + OPTIMISM * estimates.unit_std
            chosen.append(max(open_, key=lambda request: round(float(hopes[request.candidate]), DIGITS)))
            left -= open_[chosen[-1]]
        return chosen

    def add(self, runs: Sequence[ScoredRun]) -> None:
        """Add runs that were chosen together."""
        for run in runs:
            self.num_runs[run.candidate] += 1
        if runs:
            self.rounds.append(Round(tuple(runs), self._estimate(new=runs)))

    def _affordable(self, left: float) -> Iterator[tuple[TrialRequest, float]]:
        """Yield the next run of every candidate with what is missing to pay for it."""
        for i, seed in enumerate(self.num_runs):
            if seed == self.num_seeds or i in self.dropped:
                continue
            request = TrialRequest(i, seed, self.point)
            is_known = self.progress.score(request) is not None
            cost = 0.0 if is_known else self.progress.cost(i, self.point) - self.progress.spent(i, seed)
            if cost <= left + 1e-9 or cost <= 0:
                yield request, cost

    def _estimate(self, planned: Sequence[int] = (), new: Sequence[ScoredRun] = ()) -> Estimates:
        runs = [run for round_ in self.rounds for run in round_.runs]
        return self.model.estimate([(run.candidate, run.score) for run in (*runs, *new)], planned)
