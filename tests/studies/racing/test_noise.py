"""Noise between seeds: pooled over candidates, combined with what is expected, and the interval that follows."""

import math

import numpy as np
import pytest

from rollshape.studies.racing.noise import UNKNOWN, Noise, pooled_noise, with_expectation


def test_the_variance_is_pooled_over_candidates() -> None:
    noise = pooled_noise(np.array([[1.0, 3.0], [10.0, 10.0], [5.0, 9.0]]))
    assert noise == Noise(pytest.approx((2 + 0 + 8) / 3), 3)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(400, 1)) * 50 + rng.normal(size=(400, 5))
    assert pooled_noise(table).variance == pytest.approx(1, rel=0.1)


def test_one_seed_says_nothing() -> None:
    assert pooled_noise(np.ones((3, 1))) == Noise(pytest.approx(math.nan, nan_ok=True), 0)
    assert math.isnan(UNKNOWN.half_width(1))
    assert with_expectation(UNKNOWN, np.arange(8.0)) is UNKNOWN


def test_the_expectation_counts_for_two_degrees_of_freedom() -> None:
    scores = np.array([0.0, 2.0, 0.0, 2.0])  # variance 1, of which half is expected
    assert with_expectation(Noise(2.5, 2), scores) == Noise(pytest.approx((2 * 2.5 + 2 * 0.5) / 4), 4)
    assert with_expectation(Noise(2.5, 2), scores[:3]) == Noise(2.5, 2)


def test_two_finalists_with_two_seeds_have_a_usable_interval() -> None:
    scores = np.array([380.0, 320.0, 250.0, 180.0, 120.0, 100.0])
    measured = pooled_noise(np.array([[340.0, 467.8], [300.0, 310.0]]))
    assert measured.half_width(2) == pytest.approx(4.303 * math.sqrt((127.8**2 / 2 + 50) / 2 / 2), rel=1e-3)
    assert with_expectation(measured, scores).half_width(2) < 0.8 * measured.half_width(2)


def test_intervals_contain_the_mean_in_95_percent() -> None:
    rng = np.random.default_rng(1)
    hits = []
    for _ in range(4000):
        table = rng.normal(size=(2, 2))
        wide = rng.normal(size=9) * math.sqrt(2)  # noise is half of the variance between candidates
        half = with_expectation(pooled_noise(table), wide).half_width(2)
        hits += list(np.abs(table.mean(axis=1)) <= half)
    assert 0.94 < np.mean(hits) < 0.98
