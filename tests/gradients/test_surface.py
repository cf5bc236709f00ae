"""Bias of GAE windows and the surface of shapes, against a chain's exact gradients and fresh batches."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
from known_answers import Chain, Walk, delayed, lake

from rollshape.errors import RequestError
from rollshape.gradients import gram
from rollshape.gradients.bias import bias
from rollshape.gradients.intervals import Estimate
from rollshape.gradients.surface import Point, surface
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


def test_a_size_that_no_window_divides(measured: list[Windows]) -> None:
    with pytest.raises(RequestError) as error:
        surface(63, measured, np.random.default_rng(0))
    assert error.value.rule == "rollout-split"
