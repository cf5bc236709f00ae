"""The racing rule on made-up scores: what it asks for, what it pays, what it chooses."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from rollshape.errors import RequestError
from rollshape.studies.racing.rule import MIN_SHARE, OPTIMISM, POINTS, Decision, check_budget, decide
from rollshape.studies.racing.score_model import Features, ScoreModel

SIDE = (4, 16, 64, 256)
GRID = [Features(num_envs, num_steps, 2**16 // (num_envs * num_steps)) for num_envs in SIDE for num_steps in SIDE]
Table = Callable[[int, int, int], float]


def race(
    table: Table,
    num_seeds: int = 3,
    budget: float = 0.15,
    failed: dict[int, float] | None = None,
    candidates: list[Features] = GRID,
    first_part: bool = False,
) -> tuple[Decision, np.ndarray]:
    """Race to the end; return the decision, and the last part that was trained, [candidates, seeds]."""
    trained = np.zeros((len(candidates), num_seeds), int)

    def score_of(candidate: int, seed: int, point: int) -> float | None:
        return table(candidate, seed, point) if trained[candidate, seed] >= point else None

    while requests := (
        decision := decide(candidates, num_seeds, budget, score_of, failed, POINTS, first_part)
    ).requests:
        assert len(requests) <= 2 or requests[0].point == 1
        for request in requests:
            assert request.candidate not in (failed or {})
            assert trained[request.candidate, request.seed] < request.point, "nothing is requested twice"
            trained[request.candidate, request.seed] = request.point
    return decision, trained


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
    assert trained.sum() > budget * trained.size * POINTS - decision.point, "what is left does not pay for a run"
    assert decision.best is not None
    assert trained[decision.best, 0] == decision.point
    assert set(trained.flat) <= {0, decision.point}, "all runs are equally long"
    assert (decision.point == POINTS) == (budget * trained.size >= 3)
    assert len(decision.runs) >= 3


def test_it_finds_the_best_shape_without_training_most_of_them() -> None:
    decision, trained = race(peaked, budget=0.3)
    assert decision.best is not None
    assert GRID[decision.best][:2] == (16, 64)
    assert (trained[:, 0] == 0).sum() >= 5
    worst = GRID.index(Features(256, 4, 64))
    assert decision.batches[-1].estimates.is_worse(worst, decision.best)


def test_the_whole_budget_trains_everything_to_the_end() -> None:
    decision, trained = race(peaked, budget=1.0)
    assert (trained == POINTS).all()
    assert decision.best is not None
    assert GRID[decision.best][:2] == (16, 64)


def test_a_lucky_run_is_repeated_and_not_taken_at_its_word() -> None:
    first = decide(GRID, 3, 0.15, lambda *_: None).requests[0].candidate

    def lucky(candidate: int, seed: int, point: int) -> float:
        return 100.0 if (candidate, seed) == (first, 0) else peaked(candidate, seed, point) / 2

    decision, _ = race(lucky)
    assert [run.candidate for run in decision.runs].count(first) >= 2
    assert decision.batches[-1].estimates.mean[first] < 75


def test_the_next_runs_are_those_that_could_be_the_best() -> None:
    decision, _ = race(peaked)
    runs: list[tuple[int, float]] = []
    for batch in decision.batches:
        for i, run in enumerate(batch.runs):
            planned = [other.candidate for other in batch.runs[:i]]
            estimates = ScoreModel(GRID).estimate(runs, planned)
            hopes = estimates.mean + OPTIMISM * estimates.std
            spent = [c for c in range(len(GRID)) if c in planned or [other for other, _ in runs].count(c) == 3]
            hopes[spent] = -np.inf
            assert run.candidate == np.argmax(hopes)
        runs += [(run.candidate, run.score) for run in batch.runs]


def test_an_answer_does_not_depend_on_the_order_in_which_runs_end() -> None:
    known: dict[tuple[int, int, int], float] = {}

    def score_of(*key: int) -> float | None:
        return known.get(key)  # type: ignore[arg-type]

    while requests := decide(GRID, 3, 0.15, score_of).requests:
        last = requests[-1]  # one at a time, the second of a pair first
        known[last.candidate, last.seed, last.point] = peaked(last.candidate, last.seed, last.point)
    assert decide(GRID, 3, 0.15, score_of).runs == race(peaked)[0].runs


def test_candidates_that_fail_are_left_out_and_their_cost_counts() -> None:
    first = decide(GRID, 3, 0.15, lambda *_: None).requests[0].candidate
    decision, trained = race(peaked, failed={first: 35.0})
    assert decision.failed == {first}
    assert trained[first].sum() == 0
    assert trained.sum() + 35 <= 0.15 * trained.size * POINTS
    unasked = GRID.index(Features(256, 256, 1))
    assert race(peaked, failed={unasked: 0.0})[0].runs == race(peaked)[0].runs, "it was never requested"
    everything = race(peaked, failed=dict.fromkeys(range(16), 0.0))[0]
    assert everything.best is None


def test_a_later_seed_that_fails_takes_the_candidate_out() -> None:
    decision, _ = race(peaked)
    best = decision.best
    assert best is not None
    known = {(run.candidate, run.seed): run.score for run in decision.runs if run.seed == 0}
    again = decide(GRID, 3, 0.15, lambda candidate, seed, _: known.get((candidate, seed), 1.0 if candidate != best
                   else None), {best: 12.0})  # fmt: skip
    assert not again.requests
    assert again.best != best


def test_speeds_are_measured_first_if_they_count() -> None:
    _, trained = race(peaked, first_part=True)
    assert (trained[:, 0] >= 1).all()
    assert trained.sum() <= 0.15 * trained.size * POINTS
    assert decide(GRID, 3, 0.15, lambda *_: None, {2: 0.0}, first_part=True).requests[2].candidate == 3


def test_few_candidates_get_shorter_runs() -> None:
    decision, _ = race(peaked, candidates=GRID[:4])  # 1.8 whole runs
    assert decision.point == int(0.15 * 12 * POINTS / 3)
    assert len(decision.runs) == 3
    pair, _ = race(peaked, num_seeds=1, budget=0.5, candidates=GRID[:2])
    assert (pair.point, len(pair.runs)) == (POINTS // 2, 2)


@pytest.mark.parametrize(("num_candidates", "num_seeds"), [(16, 3), (2, 1), (3, 1), (20, 5)])
def test_the_smallest_budget_pays_for_short_runs(num_candidates: int, num_seeds: int) -> None:
    least = min(3, num_candidates * num_seeds) * MIN_SHARE / (num_candidates * num_seeds)
    check_budget(least, num_candidates, num_seeds)
    check_budget(1.0, num_candidates, num_seeds)
    for budget in (0.99 * least, 1.01):
        with pytest.raises(RequestError, match="is not between"):
            check_budget(budget, num_candidates, num_seeds)
