"""Over how many updates a direction lasts: from gradients that are known."""

import numpy as np
import pytest

from rollshape.probes.quantities.horizon import given_horizon, measure_horizon, new_direction


def rows(mean: np.ndarray, seed: int, noise: float = 0.5) -> np.ndarray:
    return mean + noise * np.random.default_rng(seed).normal(size=(64, len(mean)))


def test_a_direction_that_turns() -> None:
    """cos = cos(π/2 · k/20) over k updates: h = Σ of it up to the 20th, of which checkpoints every 5 know a part."""
    angles = np.arange(0, 41, 5) * np.pi / 40
    kept = [5 * i for i in range(len(angles))]
    means = [4 * np.array([np.cos(a), np.sin(a), *[0.0] * 10]) for a in angles]
    found = measure_horizon([new_direction(u, rows(m, u)) for u, m in zip(kept, means, strict=True)], kept)
    nodes = np.interp(np.arange(21), [0, 5, 10, 15, 20], np.cos(np.arange(0, 21, 5) * np.pi / 40))
    truth = nodes[:20].sum()
    assert found.source == "measured"
    assert found.checkpoints == tuple(kept)
    assert found.value == pytest.approx(truth, rel=0.1)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


def test_noise_does_not_look_like_a_turn() -> None:
    """The same mean with noise far larger than it in every environment: |G|² is unbiased, so h is not shortened."""
    mean = np.ones(12)
    found = measure_horizon([new_direction(u, rows(mean, u, noise=4.0)) for u in range(0, 50, 10)], range(0, 50, 10))
    assert found.value == pytest.approx(41, rel=0.15)


def test_without_a_direction_there_is_no_horizon() -> None:
    nothing = [new_direction(u, rows(np.zeros(12), u)) for u in (0, 10)]
    assert measure_horizon(nothing, [0, 10]).value is None
    assert "no signal" in (measure_horizon(nothing, [0, 10]).reason or "")
    assert "--keep-checkpoints" in (measure_horizon([], [10]).reason or "")
    assert given_horizon(3.0).source == "given"
