"""The variance and the cosine of a shuffled minibatch against the formula, over many batches and within one."""

import numpy as np
import pytest
from known_answers import AR1

from rollshape.errors import RequestError
from rollshape.gradients.minibatch import (
    minibatch_cosine,
    minibatch_point,
    minibatch_variance,
    shuffled_minibatches,
)
from rollshape.gradients.variance import components, lag_products

STREAM, ENVS, STEPS = AR1(signal=1.0), 8, 16
SIZE = ENVS * STEPS


@pytest.mark.parametrize("size", [1, 2, 16, 64, SIZE])
def test_predicted_variance_over_fresh_batches(size: int) -> None:
    rng, repeats = np.random.default_rng(0), 4000
    g = STREAM.draw(rng, ENVS * repeats, STEPS).reshape(repeats, SIZE, -1)
    picked = np.take_along_axis(g, rng.permuted(np.tile(np.arange(SIZE), (repeats, 1)), axis=1)[:, :size, None], axis=1)
    errors = ((picked.mean(1) - STREAM.mean) ** 2).sum(-1)
    predicted = minibatch_variance(size, SIZE, STREAM.step_variance, STREAM.correlation_time(STEPS))
    assert predicted == pytest.approx(errors.mean(), abs=4 * errors.std() / np.sqrt(repeats))
    mean, minibatch = g.mean(1), picked.mean(1)
    whole = STREAM.step_variance * STREAM.correlation_time(STEPS) / SIZE
    ratio = (mean * minibatch).sum(-1).mean() / np.sqrt((mean**2).sum(-1).mean() * (minibatch**2).sum(-1).mean())
    assert minibatch_cosine(1.0, predicted, whole) == pytest.approx(ratio, rel=0.03)


def test_the_ends_of_the_curve() -> None:
    assert minibatch_variance(1, SIZE, 3.0, 5.0) == pytest.approx(3.0)
    assert minibatch_variance(SIZE, SIZE, 3.0, 5.0) == pytest.approx(3.0 * 5.0 / SIZE)
    assert minibatch_variance(1, 1, 3.0, 1.0) == pytest.approx(3.0)
    assert minibatch_cosine(-0.1, 2.0, 0.5) == pytest.approx(0.5)


@pytest.mark.parametrize("size", [32, 256, 2048])
def test_measured_within_one_batch(size: int) -> None:
    envs, rng = 256, np.random.default_rng(0)
    g = STREAM.draw(rng, envs, STEPS)
    lags = np.asarray(lag_products(np.einsum("ntp,nsp->nts", g, g)), np.float64)
    point = components(lags, (g.mean((0, 1)) ** 2).sum())
    indices = shuffled_minibatches(rng, envs * STEPS, size, 128)
    rows = g.reshape(envs * STEPS, -1)[indices].mean(1)
    found = minibatch_point(size, envs * STEPS, rows, g.mean((0, 1)), point)
    assert found.variance.value == pytest.approx(found.predicted_variance, rel=0.25)
    assert found.cosine.value == pytest.approx(found.predicted_cosine, abs=0.05)
    assert found.cosine.low <= found.cosine.value <= found.cosine.high


def test_minibatches_of_an_epoch_are_disjoint() -> None:
    indices = shuffled_minibatches(np.random.default_rng(0), 100, 30, 8)
    assert indices.shape == (3, 30)
    assert len(np.unique(indices)) == 90
    with pytest.raises(RequestError):
        shuffled_minibatches(np.random.default_rng(0), 100, 101, 8)
