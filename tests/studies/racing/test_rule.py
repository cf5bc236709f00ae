"""The racing rule on made-up scores: what it asks for, what it pays, what it chooses."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from rollshape.errors import RequestError
from rollshape.studies.racing.rule import (
    MIN_SHARE,
    OPTIMISM,
    POINTS,
    Decision,
    Progress,
    TrialRequest,
    check_budget,
    decide,
)
from rollshape.studies.racing.score_model import Features, ScoreModel

SIDE = (4, 16, 64, 256)
GRID = [Features(num_envs, num_steps, 2**16 // (num_envs * num_steps)) for num_envs in SIDE for num_steps in SIDE]
Table = Callable[[int, int, int], float]


class Known(Progress):
    """Scores of a table as far as they were requested; costs are parts."""

    def __init__(self, table: Table, num_candidates: int, num_seeds: int, failed: dict[int, int] | None = None) -> None:
        self.table, self.failed = table, failed or {}  # candidate → first seed that fails
        self.trained = np.zeros((num_candidates, num_seeds), int)

    def score(self, request: TrialRequest) -> float | None:
        candidate, seed, point = request.candidate, request.seed, request.point
        if self.trained[candidate, seed] < point or seed >= self.failed.get(candidate, seed + 1):
            return None
        return self.table(candidate, seed, point)

    def cost(self, candidate: int, point: int) -> float:  # noqa: ARG002
        return point

    def spent(self, candidate: int, seed: int) -> float:
        return float(self.trained[candidate, seed])


def race(
    table: Table,
    num_seeds: int = 3,
    budget: float = 0.15,
    failed: dict[int, int] | None = None,
    candidates: list[Features] = GRID,
    *,
    first_part: bool = False,
    known: Known | None = None,
) -> tuple[Decision, np.ndarray]:
    """Race to the end; return the decision, and the last part that was trained, [candidates, seeds]."""
    known = known or Known(table, len(candidates), num_seeds, failed)
    total, gone = budget * known.trained.size * POINTS, set[int]()

    def step() -> Decision:
        return decide(candidates, num_seeds, total, known, gone, POINTS, first_part=first_part)

    while requests := (decision := step()).requests:
        assert len(requests) <= 2 or requests[0].point == 1
        for request in requests:
            assert request.candidate not in gone
            assert known.trained[request.candidate, request.seed] < request.point, "nothing is requested twice"
            known.trained[request.candidate, request.seed] = request.point
            if known.score(request) is None:
                gone.add(request.candidate)
    again = step()
    assert (again.runs, again.requests, again.failed) == (decision.runs, decision.requests, decision.failed), (
        "the same again"
    )
    return decision, known.trained


def peaked(candidate: int, seed: int, point: int) -> float:
    """The best shape is 16×64; a seed adds little, and all shapes learn at the same rate."""
    place = math.log2(GRID[candidate].num_envs), math.log2(GRID[candidate].num_steps)
    distance = math.hypot(place[0] - 4, place[1] - 6)
    return (100 - 9 * distance + seed) * point / POINTS


@pytest.mark.parametrize("budget", [0.03, 0.05, 0.1, 0.15, 0.3, 1.0])
@pytest.mark.parametrize("num_seeds", [1, 3, 5])
def test_it_keeps_to_the_budget_and_chooses_what_it_has_trained(budget: float, num_seeds: int) -> None:
    decision, trained = race(peaked, num_seeds, budget)
    assert trained.sum() <= budget * trained.size * POINTS + 1e-9
    point = round(decision.share * POINTS)
    assert trained.sum() > budget * trained.size * POINTS - point, "what is left does not pay for a run"
    assert decision.best is not None
    assert trained[decision.best, 0] == point
    assert set(trained.flat) <= {0, point}, "all runs are equally long"
    assert (point == POINTS) == (budget * trained.size >= 3)
    assert len(decision.runs) >= 3


def test_it_finds_the_best_shape_without_training_most_of_them() -> None:
    decision, trained = race(peaked, budget=0.3)
    assert decision.best is not None
    assert GRID[decision.best][:2] == (16, 64)
    assert (trained[:, 0] == 0).sum() >= 5
    worst = GRID.index(Features(256, 4, 64))
    assert decision.rounds[-1].estimates.is_worse(worst, decision.best)


def test_the_whole_budget_trains_everything_to_the_end() -> None:
    decision, trained = race(peaked, budget=1.0)
    assert (trained == POINTS).all()
    assert decision.best is not None
    assert GRID[decision.best][:2] == (16, 64)


def first_request() -> int:
    return decide(GRID, 3, 0.15 * 48 * POINTS, Known(peaked, 16, 3)).requests[0].candidate


def test_a_lucky_run_is_repeated_and_not_taken_at_its_word() -> None:
    first = first_request()

    def lucky(candidate: int, seed: int, point: int) -> float:
        return 100.0 if (candidate, seed) == (first, 0) else peaked(candidate, seed, point) / 2

    decision, _ = race(lucky)
    assert [run.candidate for run in decision.runs].count(first) >= 2
    assert decision.rounds[-1].estimates.mean[first] < 75


def test_the_next_runs_are_those_that_could_be_the_best() -> None:
    decision, _ = race(peaked)
    runs: list[tuple[int, float]] = []
    for round_ in decision.rounds:
        for i, run in enumerate(round_.runs):
            planned = [other.candidate for other in round_.runs[:i]]
            estimates = ScoreModel(GRID).estimate(runs, planned)
            hopes = estimates.standing + OPTIMISM * estimates.unit_std
            spent = [c for c in range(len(GRID)) if c in planned or [other for other, _ in runs].count(c) == 3]
            hopes[spent] = -np.inf
            assert run.candidate == np.argmax(hopes.round(9))
        runs += [(run.candidate, run.score) for run in round_.runs]


def test_an_answer_does_not_depend_on_the_order_in_which_runs_end() -> None:
    known = Known(peaked, 16, 3)
    while requests := decide(GRID, 3, 0.15 * 48 * POINTS, known).requests:
        last = requests[-1]  # one at a time, the second of a pair first
        known.trained[last.candidate, last.seed] = last.point
    assert decide(GRID, 3, 0.15 * 48 * POINTS, known).runs == race(peaked)[0].runs


def test_a_run_that_was_interrupted_is_finished_within_the_budget() -> None:
    known = Known(peaked, 16, 3)
    requests = decide(GRID, 3, 0.15 * 48 * POINTS, known).requests
    known.trained[requests[0].candidate, 0] = POINTS
    known.trained[requests[1].candidate, 0] = POINTS // 2
    assert decide(GRID, 3, 0.15 * 48 * POINTS, known).requests == requests[1:]
    assert race(peaked, known=known)[0].runs == race(peaked)[0].runs


@pytest.mark.parametrize("seed", [0, 1])
def test_a_candidate_that_fails_is_left_out_and_its_cost_counts(seed: int) -> None:
    first = first_request()

    def good(candidate: int, seed: int, point: int) -> float:
        return 200.0 if candidate == first else peaked(candidate, seed, point)

    decision, trained = race(good, failed={first: seed})
    assert decision.failed == {first}
    assert decision.best != first
    assert trained[first, seed] == POINTS
    assert trained.sum() <= 0.15 * trained.size * POINTS
    assert [run for run in decision.runs if run.candidate == first] == [(first, 0, 200.0)] * seed


def test_runs_that_the_rule_would_not_request_now_still_count() -> None:
    known = Known(peaked, 16, 3)
    known.trained[GRID.index(Features(256, 256, 1)), 2] = POINTS
    decision, trained = race(peaked, known=known)
    assert trained.sum() <= 0.15 * trained.size * POINTS
    assert len(decision.runs) == len(race(peaked)[0].runs) - 1
    fewer = decide(GRID, 3, 0.05 * 48 * POINTS, known)  # a smaller budget than the one of the race that is there
    assert not fewer.requests


def test_if_everything_fails_there_is_no_best() -> None:
    decision, _ = race(peaked, budget=1.0, failed=dict.fromkeys(range(16), 0))
    assert decision.best is None
    assert decision.failed == set(range(16))


def test_equal_scores_lead_to_different_shapes_and_the_first_of_them() -> None:
    for value in (0.0, 1.0, 9.3, 500.0):
        decision, trained = race(lambda *_, value=value: value)
        assert (trained[:, 0] > 0).sum() == 7, "each run trains another shape"
        assert decision.runs[0].candidate == first_request()
        assert [run[:2] for run in decision.runs] == [run[:2] for run in race(lambda *_: 3.0)[0].runs]


def test_speeds_are_measured_first_if_they_count() -> None:
    _, trained = race(peaked, first_part=True)
    assert (trained[:, 0] >= 1).all()
    assert trained.sum() <= 0.15 * trained.size * POINTS
    first = decide(GRID, 3, 144, Known(peaked, 16, 3), {2}, first_part=True).requests
    assert [request.candidate for request in first] == [i for i in range(16) if i != 2]
    assert {request.point for request in first} == {1}


def test_longer_runs_cost_more() -> None:
    class Unequal(Known):
        def cost(self, candidate: int, point: int) -> float:
            return point * (10 if candidate == first else 1)

    first = first_request()
    known = Unequal(peaked, 16, 3)
    decision = decide(GRID, 3, 9.0 * POINTS, known)
    assert first not in [request.candidate for request in decision.requests], "it alone costs more than the budget"


def test_few_candidates_get_shorter_runs() -> None:
    decision, _ = race(peaked, candidates=GRID[:4])  # 1.8 whole runs
    assert decision.share * POINTS == int(0.15 * 12 * POINTS / 3)
    assert len(decision.runs) == 3

    class Coarse(Known):
        def cost(self, candidate: int, point: int) -> float:  # noqa: ARG002
            return 4 * math.ceil(point / 4)  # trials pause only there

    coarse, _ = race(peaked, num_seeds=1, budget=0.35, candidates=GRID[:2], known=Coarse(peaked, 2, 1))
    assert (coarse.share, len(coarse.runs)) == (0.2, 2), "a longer part would leave nothing for the second run"
    pair, _ = race(peaked, num_seeds=1, budget=0.5, candidates=GRID[:2])
    assert (pair.share, len(pair.runs)) == (0.5, 2)


@pytest.mark.parametrize(("num_candidates", "num_seeds"), [(16, 3), (2, 1), (3, 1), (20, 5)])
def test_the_smallest_budget_pays_for_short_runs(num_candidates: int, num_seeds: int) -> None:
    least = min(3, num_candidates * num_seeds) * MIN_SHARE / (num_candidates * num_seeds)
    check_budget(least, num_candidates, num_seeds)
    check_budget(1.0, num_candidates, num_seeds)
    for budget, message in ((0.99 * least, "is too small"), (1.01, "more than training everything")):
        with pytest.raises(RequestError, match=message):
            check_budget(budget, num_candidates, num_seeds)
    with pytest.raises(RequestError, match="is too small"):
        check_budget(least, num_candidates, num_seeds, first_part=True)
