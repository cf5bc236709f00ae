"""Verdicts on curves of known kinds, and how often chance alone gets one."""

from typing import Any

import numpy as np
import pytest

from rollshape.studies.metrics import MetricsRow
from rollshape.studies.run_verdict import RunVerdict, classify_run, end_score, read_scores


def rows(values: Any, name: str = "eval_return") -> list[MetricsRow]:
    return [MetricsRow(i, 100 * i, 1.0, {name: None if y is None else float(y)}) for i, y in enumerate(values, 1)]


def verdict(shape: np.ndarray, noise: float = 5.0, seed: int = 0, **more: Any) -> RunVerdict:
    return classify_run(rows(shape + np.random.default_rng(seed).normal(0, noise, shape.size)), "done", **more)


X = np.linspace(0, 1, 40)
CURVES = {
    "learned": 20 + 470 * np.minimum(1, 2 * X),
    "still rising": 20 + 300 * X,
    "plateaued": 20 + 200 * np.minimum(1, 3 * X),
    "never learned": np.full(40, 20.0),
    "collapsed": 20 + 300 * np.where(X < 0.6, X / 0.6, 0.1),
}


@pytest.mark.parametrize("kind", CURVES)
def test_each_kind_of_curve(kind: str) -> None:
    for seed in range(20):
        found = verdict(CURVES[kind], seed=seed, target=475.0)
        assert found.name == kind, found
        assert found.is_bad == (kind != "learned")


def test_the_reason_states_the_test_with_its_numbers() -> None:
    assert "475 counts as solved" in verdict(CURVES["learned"], target=475.0).reason
    assert "Mann–Kendall z" in verdict(CURVES["still rising"]).reason
    assert "3 standard errors" in verdict(CURVES["never learned"]).reason
    assert set(verdict(CURVES["collapsed"]).to_dict()) == {"verdict", "reason", "numbers"}


def test_without_a_target_the_best_of_comparable_runs_is_the_measure() -> None:
    flat = CURVES["plateaued"]
    assert verdict(flat, best_other=225.0).name == "learned"
    assert verdict(flat, best_other=400.0).name == "plateaued"
    assert verdict(flat).name == "plateaued"
    assert verdict(flat, best_other=225.0, target=475.0).name == "plateaued"  # the best did not get halfway
    assert verdict(flat, best_other=225.0, target=400.0).name == "learned"


@pytest.mark.parametrize("n", [6, 20, 100])
def test_chance_alone_is_seldom_called_learning(n: int) -> None:
    found = [verdict(np.full(n, 20.0), seed=seed).name for seed in range(300)]
    assert found.count("never learned") >= 0.97 * 300


def test_a_solved_run_that_learned_within_its_first_tenth_has_learned() -> None:
    quick = np.where(np.arange(100) < 5, 20.0, 490.0)
    assert verdict(quick, target=475.0).name == "learned"
    assert verdict(quick).name == "plateaued"


def test_falling_scores_are_never_learning() -> None:
    assert verdict(100 - 80 * X).name == "never learned"


def test_a_constant_perfect_score_is_no_trend() -> None:
    assert classify_run(rows([10.0, *[500.0] * 30]), "done").name == "plateaued"
    assert classify_run(rows([0.0] * 30), "done").name == "never learned"


def test_what_cannot_be_judged() -> None:
    assert classify_run(rows([1, 2]), "done").name == "too short to judge"
    assert classify_run([], "running").name == "too short to judge"
    assert classify_run(rows([1, 2]), "diverged").name == "diverged"


def test_training_returns_stand_in_where_no_scores_were_taken() -> None:
    np.testing.assert_array_equal(read_scores(rows([1, None, 3], "episodic_return")), [1, 3])
    assert end_score(rows([0, 0, 0, 0, 0, 0, 0, 0, 4, 6])) == 5.0
    assert end_score([]) is None
