"""The racing rule on made-up scores: what it asks for, what it pays, what it keeps."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from rollshape.studies.racing.rule import (
    POINTS,
    Decision,
    decide,
    estimate_final,
    minimum_budget,
    plan_rungs,
)

UPDATES = [1024] * 16  # of as many candidates
Table = Callable[[int, int, int], float]


def race(
    table: Table,
    num_seeds: int = 3,
    budget: float = 0.15,
    excluded: dict[int, str] | None = None,
    num_candidates: int = len(UPDATES),
) -> tuple[Decision, np.ndarray]:
    """Race to the end; return the decision, and the last part that was trained, [candidates, seeds]."""
    trained = np.zeros((num_candidates, num_seeds), int)

    def score_of(candidate: int, seed: int, point: int) -> float | None:
        return table(candidate, seed, point) if trained[candidate, seed] >= point else None

    while requests := (decision := decide(UPDATES[:num_candidates], num_seeds, budget, score_of, excluded)).requests:
        for request in requests:
            assert trained[request.candidate, request.seed] < request.point, "nothing is requested twice"
            trained[request.candidate, request.seed] = request.point
    return decision, trained


def learning(candidate: int, seed: int, point: int) -> float:
    """The higher the number of the candidate, the faster it learns; each seed adds 5."""
    return 100 * (1 - math.exp(-(candidate + 1) * point / 100)) + 5 * seed


@pytest.mark.parametrize("budget", [0.05, 0.1, 0.15, 0.3, 0.6])
@pytest.mark.parametrize("num_seeds", [1, 3, 5])
def test_it_finds_the_best_and_keeps_to_the_budget(budget: float, num_seeds: int) -> None:
    if budget < minimum_budget(num_seeds):
        return
    decision, trained = race(learning, num_seeds, budget)
    assert decision.rungs[-1].order[0] >= len(UPDATES) - (2 if len(decision.rungs) == 1 else 1)
    assert trained.sum() <= budget * trained.size * POINTS + 1e-9
    assert [rung.point for rung in decision.rungs] == sorted(rung.point for rung in decision.rungs)


def test_the_whole_budget_trains_everything_to_the_end() -> None:
    decision, trained = race(learning, budget=1.0)
    assert (trained == POINTS).all()
    assert [(rung.share, rung.num_seeds) for rung in decision.rungs] == plan_rungs(3)
    assert all(rung.num_kept == len(UPDATES) for rung in decision.rungs)


def test_who_goes_on_has_the_highest_scores() -> None:
    decision, trained = race(learning)
    dropping = [rung for rung in decision.rungs[:-1] if rung.dropped]
    assert len(dropping) >= 1
    for rung in dropping:
        assert min(rung.estimates[i] for i in rung.order[: rung.num_kept]) >= max(
            rung.estimates[i] for i in rung.dropped
        )
    assert trained[decision.rungs[0].dropped[-1]].tolist() == [2, 0, 0]


def test_an_excluded_candidate_is_left_out() -> None:
    decision, trained = race(learning, excluded={len(UPDATES) - 1: "diverged"})
    assert decision.rungs[-1].order[0] == len(UPDATES) - 2
    assert trained[-1].sum() == 0


def test_a_late_starter_that_is_kept_can_win() -> None:
    def crossing(candidate: int, _: int, point: int) -> float:
        return float(point * 4) if candidate == 5 else 10.0 - abs(candidate - 5) / 10

    assert race(crossing, budget=0.5)[0].rungs[-1].order[0] == 5


def test_a_race_of_16_candidates_trains_four_to_the_end_and_two_of_them_twice() -> None:
    decision, trained = race(learning)
    assert [(len(rung.order), rung.share, rung.num_seeds) for rung in decision.rungs] == [
        (16, 0.1, 1),
        (4, 1.0, 1),
        (2, 1.0, 2),
    ]
    assert trained.sum() == 16 * 2 + 4 * 18 + 2 * 20  # = 0.15 · 16 candidates · 3 seeds · 20 parts


def test_more_seeds_first_bring_more_whole_runs_and_then_more_seeds_for_the_best() -> None:
    decision, trained = race(learning, num_seeds=5)
    assert [(len(rung.order), rung.share, rung.num_seeds) for rung in decision.rungs] == [
        (16, 0.1, 1),
        (7, 1.0, 1),  # two thirds of 0.15 · 80 − 1.6 runs, at 0.9 of a run each
        (2, 1.0, 2),
        (2, 1.0, 3),
    ]
    assert trained.sum() <= 0.15 * 16 * 5 * POINTS


def test_what_does_not_pay_for_a_second_seed_trains_another_candidate() -> None:
    decision, trained = race(learning, num_candidates=9)  # 0.15 · 9 · 3 = 4.05 runs; 3.15 after the first comparison
    assert [(len(rung.order), rung.share, rung.num_seeds) for rung in decision.rungs] == [(9, 0.1, 1), (3, 1.0, 1)]
    assert trained.sum() == 9 * 2 + 3 * 18


def test_early_scores_get_a_prior_on_the_number_of_updates() -> None:
    scores = np.array([[10.0], [12.0], [10.0], [12.0]])
    updates = [64, 1024, 16384, 2**20]  # 4, 0, 4 and 10 doublings away: heights −4, 0, −4, −4 (the lowest)
    prior = (np.array([-4.0, 0, -4, -4]) + 3) / np.sqrt(3)  # mean −3, variance 3
    np.testing.assert_allclose(estimate_final(scores, updates, is_early=True), scores[:, 0] + 2.0 * 1.0 * prior)
    np.testing.assert_array_equal(estimate_final(scores, updates, is_early=False), scores[:, 0])
    np.testing.assert_array_equal(estimate_final(scores, [1024] * 4, is_early=True), scores[:, 0])


def test_finalists_take_expected_noise_from_the_last_wide_comparison() -> None:
    def noisy(candidate: int, seed: int, point: int) -> float:
        return learning(candidate, 0, point) + seed

    decision, _ = race(noisy)
    wide, last = decision.rungs[-2], decision.rungs[-1]
    assert (len(last.order), last.num_seeds) == (2, 2)
    variance = np.var(list(wide.scores.values()))
    assert last.noise.degrees == 4  # two finalists with two seeds, and two that are expected
    assert last.noise.variance == pytest.approx((2 * 0.5 + 2 * 0.5 * variance) / 4)
    assert wide.noise.degrees == 0
