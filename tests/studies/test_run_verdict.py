"""Verdicts on curves of known kinds and on labelled ones, and how often chance alone gets one."""

from typing import Any

import numpy as np
import pytest
from tests.studies.labelled_curves import SCORING, TUNING, LabelledCurve

from rollshape.studies.learning_scores import MAX_SCORES, read_learning_scores
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
        assert found.is_bad == (kind not in ("learned", "still rising"))


def test_the_reason_states_the_test_with_its_numbers() -> None:
    assert "475 counts as solved" in verdict(CURVES["learned"], target=475.0).reason
    assert "in the second half" in verdict(CURVES["still rising"]).reason
    assert "no rise above the noise" in verdict(CURVES["never learned"]).reason
    assert set(verdict(CURVES["collapsed"]).to_dict()) == {"verdict", "reason", "numbers", "bad"}


def test_without_a_target_the_best_of_comparable_runs_is_the_measure() -> None:
    flat = CURVES["plateaued"]
    assert verdict(flat, best_other=225.0).name == "learned"
    assert verdict(flat, best_other=400.0).name == "plateaued"
    assert verdict(flat).name == "plateaued"
    assert verdict(flat, best_other=225.0, target=475.0).name == "plateaued"  # the best run has not solved it either
    assert verdict(flat, best_other=225.0, target=240.0).name == "learned"


def test_a_plateau_is_bad_only_below_something() -> None:
    flat = CURVES["plateaued"]
    assert not verdict(flat).is_bad
    assert verdict(flat, target=475.0).is_bad
    assert verdict(flat, best_other=400.0).is_bad


def test_a_plateau_close_to_the_target_is_no_failure() -> None:
    def plateau(level: float, noise: float) -> RunVerdict:
        return verdict(20 + (level - 20) * np.minimum(1, 3 * X), noise, target=475.0)

    near, below = plateau(440, 5.0), plateau(400, 5.0)
    assert near.name == below.name == "plateaued"
    assert not near.is_bad  # 92 % of the way
    assert below.is_bad  # 84 %
    assert not plateau(400, 50.0).is_bad  # within the error of its scores


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
    assert end_score(rows([0, 0, 0, 0, 0, 0, 0, 5, 4, 6])) == 5.0
    assert end_score([]) is None


def agrees(curve: LabelledCurve) -> bool:
    values = [
        MetricsRow(i, 100 * i, 1.0, {"eval_return": float(score), "eval_return_ci": curve.ci})
        for i, score in enumerate(curve.scores, 1)
    ]
    found = classify_run(values, curve.status, curve.target, curve.best_other, curve.untrained)
    return found.name == curve.label


@pytest.mark.parametrize("half", [TUNING, SCORING], ids=["tuning", "scoring"])
def test_people_agree_with_the_verdicts(half: list[LabelledCurve]) -> None:
    wrong = [f"{curve.label}: {curve.name}" for curve in half if not agrees(curve)]
    assert len(half) == 47
    assert len(wrong) <= 0.05 * len(half), wrong


def test_the_standard_error_over_episodes_is_known_noise() -> None:
    values = [30, 24, 35, 40, 46, 52, 58, 60]

    def name(error: float | None) -> str:
        named = [MetricsRow(i, i, 1.0, {"eval_return": y, "eval_return_ci": error}) for i, y in enumerate(values)]
        return classify_run(named, "done").name

    assert name(1.0) == "still rising"
    assert name(60.0) == "never learned"


def test_the_error_of_training_returns_is_that_of_their_episodes() -> None:
    values = {"episodic_return": 20.0, "episodic_return_std": 8.0, "episodes": 16.0}
    scores = read_learning_scores([MetricsRow(i, i, 1.0, values) for i in range(6)], 5)
    assert scores.error == scores.first_error == 2.0
    assert scores.untrained == 20.0  # the row of update 0


def test_a_long_log_is_averaged() -> None:
    scores = read_learning_scores(rows(np.arange(100_001)), 5)
    assert scores.values.size <= MAX_SCORES
    assert scores.values.mean() == pytest.approx(50_000, rel=0.01)
    assert classify_run(rows(np.arange(100_001)), "done").name == "still rising"


def test_episodes_that_began_before_the_log_are_no_scores() -> None:
    """A time limit ended them, but they are shorter than it: environments that start at random steps."""

    def row(i: int, score: float, length: float, timeouts: float | None) -> MetricsRow:
        values = {"episodic_return": score, "episodic_length": length, "timeout_share": timeouts}
        return MetricsRow(i, i, 1.0, values)

    full = [row(i, -1200.0 + i, 200.0, 1.0) for i in range(6)]
    assert read_learning_scores([row(0, -150.0, 30.0, 1.0), *full], 5).values.size == 6
    assert read_learning_scores([row(0, -150.0, 30.0, 0.0), *full], 5).values.size == 7  # it fell
    unknown = [row(i, -1200.0 + i, 200.0, None) for i in range(6)]
    assert read_learning_scores([row(0, -150.0, 30.0, None), *unknown], 5).values.size == 6
    growing = [row(i, 20.0 + i, 20.0 + i, None) for i in range(6)]
    assert read_learning_scores(growing, 5).values.size == 6
