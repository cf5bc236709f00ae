"""Bias of GAE windows and the surface of shapes, against a chain's exact gradients and fresh batches."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
from known_answers import Chain, SharedBias, Walk, delayed, lake

from rollshape.errors import RequestError
from rollshape.gradients import gram
from rollshape.gradients.bias import bias
from rollshape.gradients.intervals import Estimate
from rollshape.gradients.surface import Point, surface, surfaces
from rollshape.gradients.windows import Weights, Windows, windows

LONG, LAM = 32, 0.9


def rows(walk: Walk, advantages: np.ndarray) -> np.ndarray:
    return np.asarray(
        gram.rows(gram.scale_traces(walk.score_traces(), jnp.asarray(advantages, jnp.float32))), np.float64
    )


def near(estimate: Estimate, truth: float) -> bool:
    half = (estimate.high - estimate.low) / 2
    return estimate.low - half <= truth <= estimate.high + half


@pytest.mark.parametrize("make", [lake, delayed])
def test_expected_windows_are_those_that_are_drawn(make: Callable[[], Chain]) -> None:
    """The exact answer itself: a window's mean gradient against simulation, and GAE at λ = 1 against A^π."""
    chain = make()
    walk = chain.draw(np.random.default_rng(0), 20000, 4)
    found = rows(walk, walk.gae(4, LAM))
    error = found.std(0) / np.sqrt(len(found))
    assert (np.abs(found.mean(0) - chain.window_gradient(4, LAM)) <= 5 * error + 1e-7).all()
    far = chain.estimated_advantage(400, 1.0) + chain.critic[:, None]
    alive = ~chain.mdp.terminal
    values = (chain.policy * far).sum(1, keepdims=True)
    np.testing.assert_allclose((far - values)[alive], chain.advantage[alive], atol=1e-9)


@pytest.mark.parametrize("make", [lake, delayed])
def test_three_biases_against_the_exact_ones(make: Callable[[], Chain]) -> None:
    """Window: T = 2 against long T; estimator: λ against 1 at long T; total: against the true advantage."""
    chain, rng = make(), np.random.default_rng(1)
    walk = chain.draw(rng, 1500, LONG)
    true = rows(walk, walk.true_advantages())
    reference = true @ true.T
    short, long, unbiased = (walk.gae(t, lam) for t, lam in ((2, LAM), (LONG, LAM), (LONG, 1.0)))
    gradients = [chain.window_gradient(t, lam) for t, lam in ((2, LAM), (LONG, LAM), (LONG, 1.0))]
    norm = float(chain.gradient @ chain.gradient)
    for found, exact in (
        (short - long, gradients[0] - gradients[1]),
        (long - unbiased, gradients[1] - gradients[2]),
        (short - walk.true_advantages(), gradients[0] - chain.gradient),
    ):
        difference = rows(walk, found)
        result = bias(difference @ difference.T, reference, rng)
        assert near(result.squared, float(exact @ exact))
        assert result.relative is not None
        assert near(result.relative, float(exact @ exact) / norm)


def test_no_signal_has_no_relative_bias() -> None:
    noise = np.random.default_rng(0).normal(size=(2, 64, 3))
    result = bias(noise[0] @ noise[0].T, noise[1] @ noise[1].T, np.random.default_rng(0))
    assert result.relative is None
    assert "no signal" in (result.reason or "")
    assert result.squared.low == 0


@pytest.fixture(scope="module")
def measured() -> list[Windows]:
    chain = delayed()
    walk = chain.draw(np.random.default_rng(2), 512, LONG)
    scores, true, long = walk.score_traces(), walk.true_advantages(), walk.gae(LONG, LAM)
    return windows(scores, [Weights(t, walk.gae(t, LAM), long, true) for t in (2, 8, 32)])


@pytest.fixture(scope="module")
def points(measured: list[Windows]) -> list[Point]:
    return surface(64, measured, np.random.default_rng(3), horizon=4)


def test_one_rollout_predicts_every_shape(points: list[Point]) -> None:
    chain, repeats = delayed(), 600
    assert [(p.num_envs, p.num_steps) for p in points] == [(32, 2), (8, 8), (2, 32)]
    for point in points:
        walk = chain.draw(np.random.default_rng(4), repeats * point.num_envs, point.num_steps)
        batches = rows(walk, walk.gae(point.num_steps, LAM)).reshape(repeats, point.num_envs, -1).mean(1)
        mean = chain.window_gradient(point.num_steps, LAM)
        errors = ((batches - mean) ** 2).sum(1)
        slack = 2 * errors.std() / np.sqrt(repeats)  # of the fresh batches, on top of the interval's
        assert point.variance.low - slack <= errors.mean() <= point.variance.high + slack
        off = mean - chain.gradient
        assert near(point.bias2, float(off @ off))
        assert near(point.mse, float(off @ off) + errors.mean())
        window = mean - chain.window_gradient(LONG, LAM)
        assert near(point.bias2_window, float(window @ window))


def test_scores_weigh_the_noise_less(points: list[Point]) -> None:
    for point in points:
        signal = max(point.bias2.value, 0)
        assert point.mse.value == pytest.approx(signal + point.variance.value)
        assert point.score.value == pytest.approx(signal + point.variance.value / 4)
    assert points[-1].bias2_window.value == 0


@pytest.mark.parametrize("updates", [1.0, 8.0])
def test_paired_differences_cover_the_exact_ones_and_are_narrower(updates: float) -> None:
    """Of 100 intervals, 95 should contain the truth; the intervals of the two errors would make wider ones."""
    source, rng = SharedBias(), np.random.default_rng(5)
    repeats, hits, paired, unpaired = 100, 0, 0.0, 0.0
    truth = source.error(32, 2, updates) - source.error(8, 8, updates)
    for _ in range(repeats):
        other, own = surface(64, source.draw(rng, 32, (2, 8)), rng, updates, run_steps=8)
        assert own.score_difference is None
        difference = other.score_difference
        assert difference is not None
        assert difference.value == pytest.approx(other.score.value - own.score.value)
        hits += truth in difference
        paired += difference.high - difference.low
        unpaired += float(np.hypot(*(p.score.high - p.score.low for p in (other, own))))
    assert 0.90 <= hits / repeats <= 0.99
    assert paired < 0.6 * unpaired


def test_paired_differences_of_gae_windows() -> None:
    """Over very many updates only bias² is left, whose difference is exact; the chain's critic is wrong."""
    chain, rng, repeats, hits = delayed(), np.random.default_rng(6), 40, 0
    bias2 = {t: float(((chain.window_gradient(t, LAM) - chain.gradient) ** 2).sum()) for t in (2, 8)}
    for _ in range(repeats):
        walk = chain.draw(rng, 64, LONG)
        true, long = walk.true_advantages(), walk.gae(LONG, LAM)
        measured = windows(walk.score_traces(), [Weights(t, walk.gae(t, LAM), long, true) for t in (2, 8)])
        difference = surface(64, measured, rng, horizon=1e9, run_steps=8)[0].score_difference
        assert difference is not None
        hits += bias2[2] - bias2[8] in difference
    assert hits / repeats >= 0.88


def test_shapes_are_compared_only_with_an_own_one(measured: list[Windows], points: list[Point]) -> None:
    assert all(point.mse_difference is point.score_difference is None for point in points)
    compared = surfaces([48, 64], measured, np.random.default_rng(3), horizon=4, run_steps=32)
    assert [point.mse_difference is None for point in compared[64]] == [False, False, True]
    assert all(point.mse_difference is None for point in compared[48])  # 32 does not divide 48
    for old, new in zip(points, compared[64], strict=True):
        assert (new.mse, new.score, new.variance) == (old.mse, old.score, old.variance)


def test_a_size_that_no_window_divides(measured: list[Windows]) -> None:
    with pytest.raises(RequestError) as error:
        surface(63, measured, np.random.default_rng(0))
    assert error.value.rule == "rollout-split"
