"""Curves: three alignments of one run, areas, and thresholds with runs that never get there."""

import numpy as np
import pytest
from scipy import stats

from rollshape.studies.curves import (
    Curve,
    area_under,
    common_grid,
    confidence_band,
    first_reaching,
    interpolate,
    learning_curve,
    time_to_threshold,
)
from rollshape.studies.metrics import MetricsRow


def row(update: int, score: float | None, sps: int) -> MetricsRow:
    return MetricsRow(update, 100 * update, sps, {"eval_return": score})


ROWS = [row(1, None, 100), row(2, 3.0, 50), row(4, 5.0, 100)]


def line(*points: tuple[float, float]) -> Curve:
    return Curve(*np.array(points, float).T)


def test_one_run_is_three_curves() -> None:
    np.testing.assert_array_equal(learning_curve(ROWS, "timesteps", 8).x, [200, 400])
    np.testing.assert_array_equal(learning_curve(ROWS, "gradient_steps", 8).x, [16, 32])
    np.testing.assert_array_equal(learning_curve(ROWS, "seconds", 8).x, [3, 5])  # 1 + 2, then 2 more
    np.testing.assert_array_equal(learning_curve(ROWS, "seconds", 8).y, [3, 5])


def test_a_grid_is_interpolated_and_never_extrapolated() -> None:
    table = interpolate([line((0, 0), (2, 4)), line((1, 1), (4, 1))], [0, 1, 2, 3])
    np.testing.assert_array_equal(table, [[0, 2, 4, np.nan], [np.nan, 1, 1, 1]])
    grid = common_grid([line((0, 0), (2, 4)), line((1, 1), (4, 1))], points=4)
    np.testing.assert_array_equal(grid, [1, 2, 3, 4])


def test_a_band_ends_where_a_run_ends() -> None:
    band = confidence_band([line((0, 0), (4, 4)), line((0, 2), (2, 4))], [0, 2, 3])
    np.testing.assert_array_equal(band.value, [1.0, 3.0, np.nan])
    assert np.isnan([band.low[2], band.high[2]]).all()
    assert band.low[0] == pytest.approx(1 - 12.706205)


def test_the_area_is_the_mean_height() -> None:
    assert area_under(line((0, 0), (2, 2))) == 1.0
    assert area_under(line((10, 0), (12, 2), (16, 2))) == pytest.approx((2 + 8) / 6)
    assert area_under(line((10, 0), (12, 2), (16, 2)), until=14) == pytest.approx((2 + 4) / 4)
    assert area_under(line((0, 0), (2, 2)), until=1) == 0.5
    assert area_under(line((0, 0), (2, 2)), until=9) == 1.0
    assert area_under(line((3, 7))) == 7.0


def test_a_threshold_is_reached_at_a_score_or_not_at_all() -> None:
    assert first_reaching(line((1, 0), (2, 5), (3, 1)), 5) == (2.0, True)
    assert first_reaching(line((1, 0), (2, 5), (3, 1)), 6) == (3.0, False)


def until(x: float, reaches: bool) -> Curve:
    return line((0, 0), (x, 1 if reaches else 0))


def test_runs_that_never_get_there_are_censored_and_not_left_out() -> None:
    exact = time_to_threshold([until(1, True), until(2, True), until(3, False), until(4, False)], 1)
    assert (exact.reached, exact.runs, exact.median) == (2, 4, 2.0)  # S(1) = ¾, S(2) = ½
    early = time_to_threshold([until(1, True), until(1.5, False), until(2, True), until(3, True)], 1)
    assert early.median == 2.0  # S(1) = ¾, then of two left one gets there: ⅜
    rare = time_to_threshold([until(1, True), *[until(9, False)] * 9], 1)
    assert (rare.reached, rare.median, rare.high) == (1, None, None)
    never = time_to_threshold([until(9, False)] * 5, 1)
    assert never.to_dict() == {"threshold": 1, "reached": 0, "runs": 5, "median": None, "low": None, "high": None}


def test_the_median_time_is_kaplan_and_meiers_and_its_interval_covers_the_truth() -> None:
    chance = np.random.default_rng(0)
    medians, covered = [], 0
    for _ in range(40):
        times, limits = chance.exponential(1.0, 60), chance.uniform(0.2, 3.0, 60)  # true median ln 2
        seen, ended = np.minimum(times, limits), times <= limits
        found = time_to_threshold(
            [until(x, reaches) for x, reaches in zip(seen, ended, strict=True)], 1, num_resamples=100
        )
        survival = stats.ecdf(stats.CensoredData.right_censored(seen, ~ended)).sf
        assert found.median == survival.quantiles[np.flatnonzero(survival.probabilities <= 0.5)[0]]
        medians.append(found.median)
        covered += (found.low or 0) <= np.log(2) <= (found.high or np.inf)
    assert np.mean(medians) == pytest.approx(np.log(2), abs=3 * np.std(medians) / np.sqrt(40) + 0.02)
    assert covered >= 34
