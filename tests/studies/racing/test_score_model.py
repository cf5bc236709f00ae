"""The model of scores: compared with the normal distribution conditioned directly, and with draws from the model."""

import math

import numpy as np
import pytest

from rollshape.studies.racing.score_model import (
    LENGTH,
    NOISE_STD,
    OTHER_SETTINGS,
    OWN_STD,
    Features,
    ScoreModel,
    update_prior,
)

SHAPES = [(2, 32), (2, 512), (8, 8), (8, 128), (32, 32), (128, 8), (128, 128)]
CANDIDATES = [Features(num_envs, num_steps, 163_840 // (num_envs * num_steps)) for num_envs, num_steps in SHAPES]
RUNS = [(0, 3.0), (4, 5.0), (4, 4.0), (6, -1.0)]


def covariance_of(candidates: list[Features]) -> np.ndarray:
    """Return the covariance of g + e, entry by entry."""
    result = np.zeros((len(candidates), len(candidates)))
    for i, a in enumerate(candidates):
        for j, b in enumerate(candidates):
            squared = math.log2(a.num_envs / b.num_envs) ** 2 + math.log2(a.num_steps / b.num_steps) ** 2
            result[i, j] = math.exp(-squared / (2 * LENGTH**2)) + (OWN_STD**2 if i == j else 0)
            result[i, j] *= 1.0 if a.settings == b.settings else OTHER_SETTINGS
    return result


def conditioned(runs: list[tuple[int, float]], scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance of all candidates given runs, by a mean μ with a huge variance."""
    prior = scale * update_prior([candidate.num_updates for candidate in CANDIDATES])
    joint = scale**2 * covariance_of(CANDIDATES) + 1e5
    index, y = [run[0] for run in runs], np.array([run[1] for run in runs])
    gain = joint[:, index] @ np.linalg.inv(joint[np.ix_(index, index)] + scale**2 * NOISE_STD**2 * np.eye(len(y)))
    return prior + gain @ (y - prior[index]), joint - gain @ joint[index]


def test_estimates_are_the_conditional_distribution() -> None:
    estimates = ScoreModel(CANDIDATES).estimate(RUNS)
    mean, covariance = conditioned(RUNS, estimates.scale)
    np.testing.assert_allclose(estimates.mean, mean, atol=1e-3)
    np.testing.assert_allclose(estimates.scale**2 * estimates.unit_covariance, covariance, atol=1e-3)
    assert estimates.degrees == 3


def test_the_scale_is_unbiased_also_where_scores_contradict_the_prior() -> None:
    rng = np.random.default_rng(1)
    model, root = ScoreModel(CANDIDATES), np.linalg.cholesky(covariance_of(CANDIDATES))
    prior = update_prior([candidate.num_updates for candidate in CANDIDATES])
    squares = []
    for _ in range(4000):
        y = 7 + 3 * (prior + root @ rng.normal(size=7) + NOISE_STD * rng.normal(size=7))
        squares.append(model.estimate(list(enumerate(y))).scale ** 2)
    assert np.mean(squares) == pytest.approx(9, rel=0.05)
    pair = [Features(8, 32, 3906), Features(16, 32, 1953)]
    for low, high in ((0, 1), (1, 0)):
        runs = [(low, 0.0), (high, 100.0), (low, 1.0), (high, 101.0), (low, 2.0), (high, 102.0)]
        estimates = ScoreModel(pair).estimate(runs)
        assert estimates.mean[high] > 70
        assert estimates.mean[low] < 30
        assert estimates.scale < 100


def test_scores_in_other_units_give_the_same_estimates_in_these_units() -> None:
    model = ScoreModel(CANDIDATES)
    one = model.estimate(RUNS)
    other = model.estimate([(candidate, 100 * score - 7) for candidate, score in RUNS])
    np.testing.assert_allclose(other.mean, 100 * one.mean - 7)
    np.testing.assert_allclose(other.standing, one.standing)
    np.testing.assert_allclose(other.scale, 100 * one.scale)


def test_planned_runs_reduce_the_uncertainty_and_not_the_mean() -> None:
    model = ScoreModel(CANDIDATES)
    now, planned = model.estimate(RUNS), model.estimate(RUNS, [1])
    np.testing.assert_array_equal(planned.mean, now.mean)
    _, covariance = conditioned([*RUNS, (1, 123.0)], now.scale)
    np.testing.assert_allclose(now.scale**2 * planned.unit_covariance, covariance, atol=1e-3)
    first = model.estimate([], [1])
    np.testing.assert_allclose(first.unit_covariance, conditioned([(1, 0.0)], 1.0)[1], atol=1e-3)


def test_candidates_that_differ_in_other_settings_are_half_as_similar() -> None:
    candidates = [Features(8, 32, 640), Features(8, 32, 640, "learning_rate=0.001"), Features(32, 32, 160)]
    np.testing.assert_allclose(ScoreModel(candidates)._covariance, covariance_of(candidates))


def test_the_prior_prefers_about_1024_updates() -> None:
    heights = np.array([-4.0, 0, -0.25, -4, -4])  # 4, 0, 1, 4 and 10 doublings away; −4 is the lowest
    np.testing.assert_allclose(update_prior([64, 1024, 2048, 16384, 2**20]), heights / 3)


@pytest.mark.parametrize("runs", [[], [(0, 5.0)], [(0, 5.0), (4, 5.0), (6, 5.0)], [(i, 9.3) for i in range(7)]])
def test_one_run_and_equal_scores_rule_nothing_out(runs: list[tuple[int, float]]) -> None:
    estimates = ScoreModel(CANDIDATES).estimate(runs)
    assert estimates.degrees == 0
    assert math.isnan(estimates.half_width(0))
    assert np.isfinite(estimates.standing).all()
    assert not any(estimates.is_worse(i, j) for i in range(7) for j in range(7))


def test_intervals_and_comparisons_are_right_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    model, index = ScoreModel(CANDIDATES), [0, 3, 4, 4, 5, 6]
    root = np.linalg.cholesky(covariance_of(CANDIDATES))
    prior = update_prior([candidate.num_updates for candidate in CANDIDATES])
    inside, worse = [], []
    for _ in range(3000):
        truth = 50 + 10 * (prior + root @ rng.normal(size=len(CANDIDATES)))
        scores = truth[index] + 10 * NOISE_STD * rng.normal(size=len(index))
        estimates = model.estimate(list(zip(index, scores, strict=True)))
        inside += [abs(estimates.mean[i] - truth[i]) <= estimates.half_width(i) for i in range(len(CANDIDATES))]
        worse += [estimates.is_worse(1, 4) and truth[1] > truth[4], estimates.is_worse(4, 3) and truth[4] > truth[3]]
    assert 0.93 < np.mean(inside) < 0.97
    assert np.mean(worse) < 0.05
