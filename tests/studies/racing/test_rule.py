"""The racing rule on made-up scores: what it asks for, what it pays, what it keeps."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from rollshape.studies.racing.rule import POINTS, RUNGS, Decision, decide, minimum_budget, smooth

SHAPES = [(float(n), float(t)) for n in (1, 3, 5, 7) for t in (3, 5, 7, 9)]
UPDATES = [256] * len(SHAPES)
Table = Callable[[int, int, int], float]


def race(
    table: Table, num_seeds: int = 3, budget: float = 0.15, excluded: dict[int, str] | None = None
) -> tuple[Decision, np.ndarray]:
    """Race to the end; return the decision, and the last part that was trained, [candidates, seeds]."""
    trained = np.zeros((len(SHAPES), num_seeds), int)

    def score_of(candidate: int, seed: int, point: int) -> float | None:
        return table(candidate, seed, point) if trained[candidate, seed] >= point else None

    while requests := (decision := decide(SHAPES, UPDATES, num_seeds, budget, score_of, excluded)).requests:
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
    assert decision.rungs[-1].order[0] >= len(SHAPES) - (2 if len(decision.rungs) == 1 else 1)
    assert trained.sum() <= budget * trained.size * POINTS + 1e-9
    assert [rung.point for rung in decision.rungs] == sorted(rung.point for rung in decision.rungs)


def test_the_whole_budget_trains_everything_to_the_end() -> None:
    decision, trained = race(learning, budget=1.0)
    assert (trained == POINTS).all()
    assert [rung.share for rung in decision.rungs] == list(RUNGS)
    assert all(rung.num_kept == len(SHAPES) for rung in decision.rungs)


def test_who_goes_on_has_the_highest_scores() -> None:
    decision, trained = race(learning)
    dropping = [rung for rung in decision.rungs[:-1] if rung.dropped]
    assert len(dropping) >= 1
    for rung in dropping:
        assert min(rung.smoothed[i] for i in rung.order[: rung.num_kept]) >= max(rung.smoothed[i] for i in rung.dropped)
    assert trained[decision.rungs[0].dropped[-1]].tolist() == [2, 0, 0]


def test_an_excluded_candidate_is_left_out() -> None:
    decision, trained = race(learning, excluded={len(SHAPES) - 1: "diverged"})
    assert decision.rungs[-1].order[0] == len(SHAPES) - 2
    assert trained[-1].sum() == 0


def test_a_late_starter_that_is_kept_can_win() -> None:
    def crossing(candidate: int, _: int, point: int) -> float:
        return float(point * 4) if candidate == 5 else 10.0 - abs(candidate - 5) / 10

    assert race(crossing, budget=0.5)[0].rungs[-1].order[0] == 5


def test_smoothing_moves_an_outlier_toward_its_neighbors() -> None:
    line = [(float(i), 5.0) for i in range(8)]
    scores = np.arange(8.0)[:, None] + np.zeros(3)  # without noise nothing is smoothed
    np.testing.assert_allclose(smooth(scores, line, [256] * 8, 1.0), np.arange(8.0), atol=1e-5)
    scores[2] += [15.0, 0.0, 3.0]
    smoothed = smooth(scores, line, [256] * 8, 1.0)
    assert smoothed.argmax() == 7
    assert 2.0 < smoothed[2] < scores[2].mean()
    np.testing.assert_array_equal(smooth([[3.0], [1.0], [2.0]], line[:3], [256] * 3, 0.1), [3.0, 1.0, 2.0])
    np.testing.assert_array_equal(smooth([[1.0]] * 5, line[:5], [2**i for i in range(5)], 0.1), [1.0] * 5)


def test_the_prior_breaks_ties_early_and_not_at_the_end() -> None:
    places = [(float(i), float(i % 3)) for i in range(6)]
    scores = np.array([[10.0], [11.0], [10.0], [11.0], [10.0], [11.0]])
    updates = [4, 16, 256, 256, 4096, 16384]
    early, late = (smooth(scores, places, updates, share) for share in (0.05, 1.0))
    assert early.argmax() == 3
    assert early[2] > early[0]
    assert abs(late[2] - late[0]) < 0.2 * (early[2] - early[0])


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
