"""The clustered noise scale is right, the naive one is wrong by the formula, and no signal is said as such."""

import numpy as np
import pytest
from known_answers import AR1

from rollshape.gradients.intervals import squared_norm
from rollshape.gradients.noise_scale import naive_snr, noise_scales


def summary(g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = g.mean(1)
    return (g**2).sum(-1).mean(1), rows @ rows.T


def test_against_the_closed_form() -> None:
    stream, envs, steps = AR1(signal=1.0), 2000, 16
    norms, gram = summary(stream.draw(np.random.default_rng(0), envs, steps))
    found = noise_scales(norms, gram, steps, np.random.default_rng(1))
    sigma, tau, size = stream.step_variance, stream.correlation_time(steps), envs * steps
    biased = 1.0 + sigma * (tau - 1) / (size - 1)
    for scale, truth in ((found.clustered, sigma * tau), (found.individual, sigma), (found.naive, sigma / biased)):
        assert scale.value == pytest.approx(truth, rel=0.05)
        assert scale.low < scale.value < scale.high  # type: ignore[operator]
        assert scale.reason is None


def test_the_naive_norm_is_biased_as_predicted() -> None:
    """E[U] = |G|² + σ²(τ_T − 1)/(NT − 1) over pairs of transitions, here twice |G|²; over environments |G|²."""
    stream, envs, steps, repeats = AR1(rho=0.9, signal=0.5), 4, 8, 8000
    g = stream.draw(np.random.default_rng(0), envs * repeats, steps).reshape(repeats, envs, steps, -1)
    flat = g.reshape(repeats, envs * steps, -1)
    size = envs * steps
    naive = ((flat.sum(1) ** 2).sum(-1) - (flat**2).sum((1, 2))) / (size * (size - 1))
    clustered = np.array([squared_norm(r @ r.T) for r in g.mean(2)])
    truth = 0.25
    biased = truth + stream.step_variance * (stream.correlation_time(steps) - 1) / (size - 1)
    assert naive.mean() == pytest.approx(biased, abs=4 * naive.std() / np.sqrt(repeats))
    assert clustered.mean() == pytest.approx(truth, abs=4 * clustered.std() / np.sqrt(repeats))
    step, row = (flat**2).sum(-1).mean(1), (g.mean(2) ** 2).sum(-1).mean(1)
    np.testing.assert_allclose(naive_snr(step, row, clustered, envs, size), naive / (step - naive), rtol=1e-9)


def test_no_signal_is_said_as_such() -> None:
    norms, gram = summary(AR1(signal=0.0).draw(np.random.default_rng(0), 64, 8))
    scales = noise_scales(norms, gram, 8, np.random.default_rng(1))
    assert scales.clustered.value is None
    assert scales.clustered.high is None
    assert "no signal" in (scales.clustered.reason or "")
    assert scales.clustered.low is None or scales.clustered.low > 0
    assert scales.naive.value is not None  # the usual estimator sees a signal where there is none
    assert scales.naive.value < 64 * 8


def test_pure_signal_has_a_small_scale() -> None:
    g = 1 + 1e-3 * np.random.default_rng(0).normal(size=(64, 4, 2))
    assert noise_scales(*summary(g), 4, np.random.default_rng(1)).clustered.value == pytest.approx(1e-6, rel=0.3)
