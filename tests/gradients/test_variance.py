"""Terms 1 and 2, lags, τ and ESS against closed forms and sums over a chain."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from known_answers import AR1, Chain, delayed, lake

from rollshape.gradients import gram
from rollshape.gradients.intervals import Estimate, Z, student_quantile
from rollshape.gradients.variance import (
    FEW_ENVS,
    autocorrelation,
    cluster_variance,
    components,
    effective_envs,
    empirical_variance,
    lag_products,
    variance,
)

STEPS = 12


def near(estimate: Estimate, truth: float) -> bool:
    """Within twice the interval: this is a check of the estimator, not of its coverage."""
    half = (estimate.high - estimate.low) / 2
    return estimate.low - half <= truth <= estimate.high + half


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, -0.4])
def test_ar1_against_its_closed_form(rho: float) -> None:
    stream, envs = AR1(rho=rho), 2000
    g = stream.draw(np.random.default_rng(0), envs, STEPS)
    rows = g.mean(1)
    blocks = np.einsum("ntp,nsp->nts", g, g)
    found = variance(lag_products(blocks), rows @ rows.T, np.random.default_rng(1))
    tau, sigma = stream.correlation_time(STEPS), stream.step_variance
    size = envs * STEPS
    assert near(found.step_variance, sigma)
    assert near(found.individual, sigma / size)
    assert near(found.covariance, sigma * (tau - 1) / size)
    assert near(found.total, sigma * tau / size)
    assert near(found.correlation_time, tau)
    assert near(found.effective_sample_size, size / tau)
    assert near(found.squared_norm, float(stream.mean @ stream.mean))
    assert found.autocorrelation[0].value == 1
    assert all(near(found.autocorrelation[k], rho**k) for k in range(1, STEPS))


def test_a_long_window_approaches_the_textbook_value() -> None:
    assert AR1(rho=0.8).correlation_time(10**6) == pytest.approx(1.8 / 0.2, rel=1e-4)
    lags = 0.8 ** np.arange(1, STEPS)
    assert AR1(rho=0.8).correlation_time(STEPS) == pytest.approx(
        1 + 2 * ((1 - np.arange(1, STEPS) / STEPS) * lags).sum()
    )


@pytest.mark.parametrize("make", [lake, delayed])
def test_a_chain_against_sums_over_its_states(make: Callable[[], Chain]) -> None:
    chain, envs, rng = make(), 2500, np.random.default_rng(0)
    walk = chain.draw(rng, envs, STEPS)
    traces = gram.scale_traces(walk.score_traces(), jnp.asarray(walk.true_advantages(), jnp.float32))
    found = variance(lag_products(gram.gram_blocks(traces)), gram.row_gram(traces), rng)
    covariance = chain.lag_covariance(STEPS)
    mean = covariance[0] + 2 * ((1 - np.arange(1, STEPS) / STEPS) * covariance[1:]).sum()
    assert near(found.step_variance, covariance[0])
    assert near(found.individual, covariance[0] / (envs * STEPS))
    assert near(found.total, mean / (envs * STEPS))
    assert near(found.covariance, (mean - covariance[0]) / (envs * STEPS))
    assert near(found.effective_sample_size, envs * STEPS * covariance[0] / mean)
    assert near(found.squared_norm, float(chain.gradient @ chain.gradient))
    lags = range(1, 7)  # further apart the lake's rare pairs are too few, even here
    assert all(near(found.autocorrelation[k], covariance[k] / covariance[0]) for k in lags)


def test_lags_and_clusters_are_one_number() -> None:
    """No cut-off, one centre: the estimators agree to rounding, batch by batch, and not only on average."""
    g = AR1().draw(np.random.default_rng(0), 40, STEPS)
    rows = g.mean(1)
    point = components(
        np.asarray(lag_products(np.einsum("ntp,nsp->nts", g, g)), np.float64), (g.mean((0, 1)) ** 2).sum()
    )
    total, norm = cluster_variance(rows @ rows.T, np.random.default_rng(0))
    assert float(point.total) == pytest.approx(total.value, rel=1e-5)
    assert float(point.squared_norm) == pytest.approx(norm.value, rel=1e-5)
    assert float(point.individual + point.covariance) == pytest.approx(total.value, rel=1e-5)
    found = variance(lag_products(np.einsum("ntp,nsp->nts", g, g)), rows @ rows.T, np.random.default_rng(0))
    for name in ("total", "individual", "covariance", "step_variance", "correlation_time", "effective_sample_size"):
        assert getattr(found, name).value == pytest.approx(float(getattr(point, name)), rel=1e-4)
    np.testing.assert_allclose([e.value for e in found.autocorrelation], point.autocorrelation, rtol=1e-4, atol=1e-5)


def test_components_are_unbiased() -> None:
    """The mean over many tiny batches is the truth: plug-in centring would be off by a third here."""
    stream, envs, repeats = AR1(), 3, 20000
    g = stream.draw(np.random.default_rng(0), envs * repeats, 4).reshape(repeats, envs, 4, -1)

    def one(g: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        found = components(lag_products(jnp.einsum("ntp,nsp->nts", g, g)), (g.mean((0, 1)) ** 2).sum())
        return found.total, found.individual, found.squared_norm

    found = np.array(jax.jit(jax.vmap(one))(jnp.asarray(g, jnp.float32)))
    tau, sigma = stream.correlation_time(4), stream.step_variance
    truth = [sigma * tau / 12, sigma / 12, float(stream.mean @ stream.mean)]
    np.testing.assert_array_less(np.abs(found.mean(1) - truth), 4 * found.std(1) / np.sqrt(repeats))


def test_lag_products_are_diagonals() -> None:
    blocks = np.random.default_rng(0).normal(size=(2, 5, 5)).astype(np.float32)
    wanted = [[np.diagonal(block, k).mean() for k in range(5)] for block in blocks]
    np.testing.assert_allclose(lag_products(blocks), wanted, rtol=1e-5)


def test_the_autocorrelation_leaves_out_environments() -> None:
    """Its deviations against a loop over environments; a strong signal, so that |G|² counts."""
    g = AR1(signal=3.0).draw(np.random.default_rng(0), 33, 4)
    lags, rows = np.asarray(lag_products(np.einsum("ntp,nsp->nts", g, g)), np.float64), g.mean(1)
    kept = [np.delete(np.arange(33), e) for e in range(33)]
    curves = [components(lags[k], (g[k].mean((0, 1)) ** 2).sum()).autocorrelation for k in kept]
    deviation = np.sqrt(32 / 33 * ((curves - np.mean(curves, 0)) ** 2).sum(0))
    found = autocorrelation(lags, rows @ rows.T)
    np.testing.assert_allclose([(e.high - e.low) / 2 for e in found], Z * deviation, rtol=1e-4, atol=1e-9)


def test_effective_envs_count_the_environments_with_a_gradient() -> None:
    assert effective_envs(np.diag([2.0] * 7)) == pytest.approx(7)
    assert effective_envs(np.diag([1.0, 0.0, 0.0])) == pytest.approx(1)
    assert effective_envs(np.zeros((4, 4))) == 4


@pytest.mark.parametrize(("stream", "few"), [(AR1(skewed=True), False), (delayed(), False), (lake(), True)])
def test_rare_events_are_told_from_noise_that_all_have(stream: AR1 | Chain, few: bool) -> None:
    """32 environments × 32 steps: a random policy on FrozenLake hardly ever comes near the goal."""
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        if isinstance(stream, AR1):
            rows = stream.draw(rng, 32, 32).mean(1)
        else:
            walk = stream.draw(rng, 32, 32)
            weights = jnp.asarray(walk.true_advantages(), jnp.float32)
            rows = np.asarray(gram.rows(gram.scale_traces(walk.score_traces(), weights)))
        found.append(effective_envs(rows @ rows.T) < FEW_ENVS)
    assert np.mean(found) == few


def test_brute_force_covers_the_variance() -> None:
    """Of 8 batches each: gradients with deviations 1, 2 and 3 have tr Var = 14."""
    chance, inside, repeats = np.random.default_rng(5), 0, 400
    for _ in range(repeats):
        found = empirical_variance(chance.normal(size=(8, 3)) * [1, 2, 3] + 5)
        inside += 14.0 in found
    assert 0.88 <= inside / repeats <= 0.99


@pytest.mark.parametrize(("freedom", "quantile"), [(4, 2.776), (7, 2.365), (31, 2.040), (10**6, 1.960)])
def test_students_quantile(freedom: int, quantile: float) -> None:
    assert student_quantile(freedom) == pytest.approx(quantile, rel=0.01)
