"""Nominal 95 % intervals cover 90–98 %, measured where the truth is known, at the fewest environments allowed."""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
import pytest
from known_answers import AR1, delayed

from rollshape.errors import RequestError
from rollshape.gradients import gram
from rollshape.gradients.bias import bias
from rollshape.gradients.intervals import MIN_ENVS, Bootstrap, Estimate, Z, estimate_squared_norm, squared_norm
from rollshape.gradients.noise_scale import noise_scales
from rollshape.gradients.variance import cluster_variance, lag_products, variance

REPEATS = 300


def assert_covered(estimates: Sequence[Sequence[Estimate]], truths: Sequence[float]) -> None:
    hits = np.array([[truth in e for e, truth in zip(row, truths, strict=True)] for row in estimates]).mean(0)
    assert ((hits >= 0.90) & (hits <= 0.985)).all(), hits


@pytest.mark.slow
@pytest.mark.parametrize("stream", [AR1(), AR1(skewed=True)], ids=["normal", "skewed"])
def test_coverage_on_ar1(stream: AR1) -> None:
    steps, rng = 8, np.random.default_rng(1)
    tau, sigma = stream.correlation_time(steps), stream.step_variance
    size, norm = MIN_ENVS * steps, float(stream.mean @ stream.mean)
    found = []
    for _ in range(REPEATS):
        g = stream.draw(rng, MIN_ENVS, steps)
        rows = g.mean(1)
        lags = np.stack([(g[:, : steps - k] * g[:, k:]).sum(-1).mean(1) for k in range(steps)], axis=1)
        v = variance(lags, rows @ rows.T, rng)
        found.append(
            [v.total, v.individual, v.covariance, v.effective_sample_size, v.squared_norm, v.autocorrelation[3]]
        )
    truths = [sigma * tau / size, sigma / size, sigma * (tau - 1) / size, size / tau, norm, stream.rho**3]
    assert_covered(found, truths)


def per_batch(
    statistic: Callable[[np.ndarray, np.ndarray], Sequence[Estimate]], *arrays: np.ndarray
) -> list[Sequence[Estimate]]:
    """The statistic of each of the batches of 32 environments in arrays [REPEATS·32, …]."""
    return [
        statistic(*parts) for parts in zip(*(a.reshape(REPEATS, MIN_ENVS, *a.shape[1:]) for a in arrays), strict=True)
    ]


@pytest.mark.slow
def test_coverage_of_variance_and_bias_on_a_chain() -> None:
    """Windows of GAE with a wrong critic against the true advantage, and the true advantage's own variance."""
    chain, steps, rng = delayed(), 16, np.random.default_rng(2)
    walk = chain.draw(rng, REPEATS * MIN_ENVS, steps)
    scores, true = walk.score_traces(), walk.true_advantages()
    here = gram.scale_traces(scores, jnp.asarray(true, jnp.float32))
    off = gram.scale_traces(scores, jnp.asarray(walk.gae(4, 0.9) - true, jnp.float32))
    lags = np.asarray(lag_products(gram.gram_blocks(here)))
    rows, differences = np.asarray(gram.rows(here), float), np.asarray(gram.rows(off), float)

    def measure(lags: np.ndarray, rows: np.ndarray, differences: np.ndarray) -> list[Estimate]:
        v = variance(lags, rows @ rows.T, rng)
        b = bias(differences @ differences.T, rows @ rows.T, rng)
        assert b.relative is not None
        return [v.total, v.individual, v.covariance, v.effective_sample_size, v.squared_norm, b.squared, b.relative]

    covariance = chain.lag_covariance(steps)
    total = (covariance[0] + 2 * ((1 - np.arange(1, steps) / steps) * covariance[1:]).sum()) / (MIN_ENVS * steps)
    individual = covariance[0] / (MIN_ENVS * steps)
    norm = chain.gradient @ chain.gradient
    error = chain.window_gradient(4, 0.9) - chain.gradient
    truths = [total, individual, total - individual, covariance[0] / total, norm, error @ error, error @ error / norm]
    assert_covered(per_batch(measure, lags, rows, differences), truths)


@pytest.mark.slow
def test_coverage_of_the_noise_scale() -> None:
    stream, steps, rng = AR1(signal=1.0), 8, np.random.default_rng(3)
    truth = stream.step_variance * stream.correlation_time(steps) / float(stream.mean @ stream.mean)
    hits, unbounded = [], 0
    for _ in range(REPEATS):
        g = stream.draw(rng, MIN_ENVS, steps)
        rows = g.mean(1)
        scale = noise_scales((g**2).sum(-1).mean(1), rows @ rows.T, steps, rng).clustered
        high = np.inf if scale.high is None else scale.high
        unbounded += scale.high is None
        assert (scale.value is None) == (scale.high is None)
        hits.append(scale.low is not None and scale.low <= truth <= high)
    assert 0.90 <= np.mean(hits) <= 0.985
    assert unbounded < REPEATS / 2


@pytest.mark.slow
@pytest.mark.parametrize("signal", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("size", [1, 8, 50])
def test_coverage_of_a_squared_norm(signal: float, size: int) -> None:
    stream, rng = AR1(size=size, signal=signal), np.random.default_rng(7)
    rows = stream.draw(rng, 2 * REPEATS * MIN_ENVS, 2).mean(1).reshape(2 * REPEATS, MIN_ENVS, size)
    assert_covered([[estimate_squared_norm(r @ r.T)] for r in rows], [signal**2])


def test_squared_norms_have_no_plug_in_bias() -> None:
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(4000, MIN_ENVS, 5)) + 0.1
    found = np.array([squared_norm(r @ r.T) for r in rows])
    assert found.mean() == pytest.approx(0.05, abs=4 * found.std() / np.sqrt(4000))
    plug_in = (rows.mean(1) ** 2).sum(-1)
    assert plug_in.mean() > 0.05 + 4 * plug_in.std() / np.sqrt(4000)


def test_resamples_are_what_a_loop_gives() -> None:
    """The closed forms of a resample, and of it with a draw left out, against copies of the environments."""
    rng = np.random.default_rng(5)
    rows, x = rng.normal(size=(MIN_ENVS, 3)), rng.normal(size=MIN_ENVS)
    resampled = Bootstrap({"x": x}, {"u": rows @ rows.T}, rng, repeats=5)
    for b, counts in enumerate(resampled._counts.astype(int)):
        drawn = np.repeat(np.arange(MIN_ENVS), counts)
        assert resampled._resamples["u"][b] == pytest.approx(squared_norm(rows[drawn] @ rows[drawn].T))
        assert resampled._resamples["x"][b] == pytest.approx(x[drawn].mean())
        fewer = drawn[1:]
        assert resampled._resamples_left_out["u"][b, drawn[0]] == pytest.approx(
            squared_norm(rows[fewer] @ rows[fewer].T)
        )
        assert resampled._resamples_left_out["x"][b, drawn[0]] == pytest.approx(x[fewer].mean())


def test_the_same_generator_gives_the_same_interval() -> None:
    rows = np.random.default_rng(6).normal(size=(40, 3))
    first, again = (cluster_variance(rows @ rows.T, np.random.default_rng(0)) for _ in range(2))
    assert first == again
    assert first[0].low < first[0].value < first[0].high


def test_too_few_environments_are_refused() -> None:
    with pytest.raises(RequestError) as error:
        cluster_variance(np.eye(MIN_ENVS - 1), np.random.default_rng(0))
    assert error.value.rule == "independent-environments"


def test_constant_rows_have_no_width() -> None:
    total, norm = cluster_variance(np.ones((40, 40)), np.random.default_rng(0))
    assert (norm.value, norm.low, norm.high) == pytest.approx((1.0, 1.0, 1.0))
    assert 0 <= total.low <= total.high < 1e-12


def test_wider_is_never_narrower_than_the_jackknife() -> None:
    """Rows with a heavy tail, where the studentised bootstrap alone is narrower at one of the ends."""
    x = np.random.default_rng(8).pareto(2.5, size=MIN_ENVS)
    resampled = Bootstrap({"x": x}, {}, np.random.default_rng(0))
    half = Z * x.std(ddof=1) / np.sqrt(MIN_ENVS)  # the jackknife of a mean is the usual deviation
    alone, wider = (resampled.estimate(lambda q: q["x"], wider=wide) for wide in (False, True))
    assert alone.low > x.mean() - half
    assert wider.low == pytest.approx(min(alone.low, x.mean() - half))
    assert wider.high == pytest.approx(max(alone.high, x.mean() + half))
    mirrored = Bootstrap({"x": -x}, {}, np.random.default_rng(0)).estimate(lambda q: q["x"])
    assert (mirrored.low, mirrored.high) == pytest.approx((-wider.high, -wider.low))
