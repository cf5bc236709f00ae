"""Statistics against exact values, against SciPy's, and against their own coverage in simulation."""

import numpy as np
import pytest
from scipy import stats

from rollshape.studies.statistics import (
    Summary,
    bootstrap_interval,
    compare_ranking,
    difference_of_centers,
    difference_of_summaries,
    interquartile_mean,
    probability_of_improvement,
    separate,
    separation_level,
    summarize,
)


def test_the_interquartile_mean_is_that_of_the_middle_half() -> None:
    assert interquartile_mean([8, 1, 100, 3, 4, 5, 6, -50]) == 4.5  # 3, 4, 5, 6
    chance = np.random.default_rng(1)
    for n in (1, 3, 10, 21):
        values = chance.normal(size=(5, n))
        np.testing.assert_allclose(interquartile_mean(values), stats.trim_mean(values, 0.25, axis=1))


@pytest.mark.parametrize("n", range(2, 10))
def test_few_runs_have_a_mean_and_a_t_interval(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n)
    found = summarize(values)
    assert found.method == "mean"
    assert found.runs == n
    expected = stats.t.interval(0.95, n - 1, values.mean(), stats.sem(values))
    np.testing.assert_allclose((found.low, found.high), expected, rtol=1e-5)


def test_one_run_has_no_interval() -> None:
    found = summarize([3.0])
    assert (found.value, found.low, found.high) == (3.0, None, None)


def test_intervals_cover_what_they_claim() -> None:
    chance = np.random.default_rng(0)
    few, many = chance.normal(2.0, 1.0, (1000, 5)), chance.normal(2.0, 1.0, (400, 20))
    for samples, least in (
        (few, 0.93),
        (many, 0.88),
    ):  # a percentile bootstrap of 20 runs falls a little short
        intervals = [summarize(sample) for sample in samples]
        covered = np.mean([(each.low or 0) <= 2.0 <= (each.high or 0) for each in intervals])
        assert least <= covered <= 0.97


def test_ten_runs_have_an_interquartile_mean_and_a_bootstrap() -> None:
    found = summarize([*range(9), 1000.0])
    assert found.method == "iqm"
    assert found.value == np.mean([2, 3, 4, 5, 6, 7])
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    assert summarize([4.0] * 12).to_dict() == {"value": 4.0, "low": 4.0, "high": 4.0, "runs": 12, "method": "iqm"}


def test_the_bootstrap_draws_within_strata() -> None:
    strata = [np.full(4, 1.0), np.full(7, 5.0)]
    assert bootstrap_interval(strata, lambda drawn: drawn[1].mean(-1) - drawn[0].mean(-1)) == (4.0, 4.0)
    low, high = bootstrap_interval([np.array([0.0, 1.0])], lambda drawn: drawn[0].mean(-1))  # 0, ½, ½, 1
    assert (low, high) == (0.0, 1.0)
    values = np.random.default_rng(2).normal(size=400)
    low, high = bootstrap_interval([values], lambda drawn: drawn[0].mean(-1))
    np.testing.assert_allclose(high - low, 2 * 1.96 * values.std() / 20, rtol=0.08)


def test_the_probability_of_improvement_counts_pairs_and_halves_ties() -> None:
    assert probability_of_improvement([1, 2], [1, 3]).value == 1.5 / 4
    x, y = np.random.default_rng(3).integers(0, 9, (2, 30)).astype(float)
    expected = stats.mannwhitneyu(x, y).statistic / 900
    assert probability_of_improvement(x, y).value == pytest.approx(expected)
    assert probability_of_improvement(y, x).value == pytest.approx(1 - expected)


def test_the_interval_of_a_probability_covers_the_truth() -> None:
    chance = np.random.default_rng(4)
    truth, covered = stats.norm.cdf(1 / np.sqrt(2)), 0
    for _ in range(200):
        found = probability_of_improvement(chance.normal(1, 1, 15), chance.normal(0, 1, 15))
        covered += (found.low or 0) <= truth <= (found.high or 0)
    assert 0.87 <= covered / 200 <= 0.99
    sure = probability_of_improvement([3, 4, 5], [0, 1, 2])
    assert (sure.value, sure.low, sure.high) == (1.0, 1.0, 1.0)


SCORES = {"a": [10.0, 10.1, 9.9], "b": [8.0, 8.1, 7.9], "c": [5.0, 5.1, 4.9], "d": [4.0, 6.0, 5.0]}


def test_a_right_ranking_has_no_regret() -> None:
    found = compare_ranking({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}, SCORES)
    assert (found.predicted_best, found.measured_best) == ("a", "a")
    assert found.regret.value == found.regret.low == found.regret.high == 0
    assert (found.pairs, found.separated, found.concordant) == (6, 4, 4)  # d differs significantly from a only
    assert found.concordance == 1.0


def test_a_wrong_ranking_is_charged_for_its_choice() -> None:
    found = compare_ranking({"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}, SCORES)
    assert found.predicted_best == "d"
    assert found.regret.value == pytest.approx(5.0)
    assert found.regret.low is not None
    assert found.regret.high is not None
    assert 2 <= found.regret.low < 5 < found.regret.high <= 8.5  # of three runs: drawn by t
    assert (found.separated, found.concordant, found.concordance) == (4, 0, 0.0)
    assert found.to_dict()["concordance"] == 0.0


def test_pairs_that_the_curves_do_not_separate_prove_nothing() -> None:
    noise = {name: np.random.default_rng(5).normal(size=8) for name in "ab"}
    found = compare_ranking({"a": 1.0, "b": 2.0}, noise)
    assert (found.separated, found.concordance) == (0, None)
    only = compare_ranking({"a": 1.0, "x": 0.0}, {"a": [1.0], "y": [2.0]})  # only what has both
    assert (only.predicted_best, only.pairs) == ("a", 0)
    with pytest.raises(ValueError, match="no shape"):
        compare_ranking({"x": 1.0}, {"y": [1.0]})


def test_groups_are_separated_whatever_their_order() -> None:
    signs = separate(SCORES)
    for seed in range(20):  # some pairs are close to the level
        chance = np.random.default_rng(seed)
        scores = {str(i): chance.normal(0.4 * i, 1, size=12) for i in range(6)}
        assert separate(scores) == separate({name: scores[name] for name in reversed(scores)})
    assert (signs["a", "b"], signs["b", "a"], signs["c", "d"]) == (-1, 1, 0)
    assert separate({}) == {}
    assert separation_level(10) == pytest.approx(0.995)


def test_a_ranking_counts_the_pairs_of_all_measured_groups() -> None:
    """A pair is separated or not, whether or not other groups have a prediction."""
    chance = np.random.default_rng(3)
    scores = {str(i): chance.normal(0.6 * i, 1, size=12) for i in range(6)}
    separated = {pair for pair, sign in separate(scores).items() if sign}
    for names in (("0", "3"), ("1", "4"), ("0", "2", "5")):
        found = compare_ranking({name: -float(name) for name in names}, scores)
        expected = sum((first, second) in separated for i, first in enumerate(names) for second in names[:i])
        assert found.separated == expected


def test_differences_have_intervals_of_their_own() -> None:
    chance = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        covered += _covers(difference_of_centers(chance.normal(0, 1, 5), chance.normal(2, 3, 5)), 2.0)
    assert covered / 200 >= 0.92
    one = difference_of_centers([1.0], [3.0, 4.0])
    assert (one.value, one.low, one.high) == (2.5, None, None)


def test_differences_of_summaries_add_the_squares() -> None:
    first, second = Summary(10.0, 7.0, 14.0, 5, "mean"), Summary(20.0, 16.0, 23.0, 8, "mean")
    found = difference_of_summaries(first, second)
    assert (found.value, found.runs) == (10.0, 5)
    assert found.low == pytest.approx(10 - np.hypot(4, 4))
    assert found.high == pytest.approx(10 + np.hypot(3, 3))
    assert difference_of_summaries(first, Summary(20.0, None, None, 1, "mean")).low is None


def _covers(summary: Summary, value: float) -> bool:
    return summary.low is not None and summary.high is not None and summary.low <= value <= summary.high
