"""Variance and noise scale from clusters: the formulas of equal environments, and intervals that cover."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from rollshape.gradients.clusters import Clusters, cluster_estimates
from rollshape.gradients.variance import lag_products, variance


def clusters_of(g: np.ndarray, sizes: list[int]) -> Clusters:
    """Clusters of consecutive steps of gradients [M, P]."""
    edges = np.cumsum([0, *sizes])
    sums = np.array([g[a:b].sum(0) for a, b in pairwise(edges)])
    squares = np.array([(g[a:b] ** 2).sum() for a, b in pairwise(edges)])
    return Clusters(sums @ sums.T, np.array(sizes, float), squares)


def ar1(rng: np.random.Generator, count: int, steps: int, width: int, rho: float) -> np.ndarray:
    x = np.zeros((count, steps, width))
    x[:, 0] = rng.normal(size=(count, width))
    for t in range(1, steps):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * rng.normal(size=(count, width))
    return x


def test_equal_clusters_give_the_values_of_environments() -> None:
    g = ar1(np.random.default_rng(0), 40, 6, 3, 0.5) + 0.3
    rows = g.mean(1)
    expected = variance(lag_products(np.einsum("ntp,nsp->nts", g, g)), rows @ rows.T, np.random.default_rng(0))
    result = cluster_estimates(clusters_of(g.reshape(-1, 3), [6] * 40), 240)
    for name, estimate in result.variance.items():
        assert estimate.value == pytest.approx(getattr(expected, name).value, rel=1e-9), name
    assert result.effective_sample_size.value == pytest.approx(expected.effective_sample_size.value)


def test_intervals_cover_the_truth_with_few_clusters_of_different_sizes() -> None:
    rng, rho, covered, signals = np.random.default_rng(1), 0.6, 0, 0
    sizes = [4, 9, 6, 12, 5, 8, 10, 7, 6, 9, 11, 5]
    size = sum(sizes)
    truth = sum(sum(rho ** abs(a - b) for a in range(s) for b in range(s)) for s in sizes) / size  # correlation time
    for _ in range(200):
        g = np.concatenate([ar1(rng, 1, s, 8, rho)[0] for s in sizes])
        result = cluster_estimates(clusters_of(g, sizes), size)
        covered += truth in result.variance["correlation_time"]
        signals += result.noise_scale.clustered.value is not None
    assert covered >= 170  # of 200 intervals of nominally 95 %
    assert signals <= 20  # there is none


def test_a_strong_signal_has_a_noise_scale() -> None:
    rng = np.random.default_rng(2)
    g = rng.normal(size=(400, 5)) + 1.0
    scales = cluster_estimates(clusters_of(g, [20] * 20), 400).noise_scale
    assert scales.clustered.value == pytest.approx(1.0, rel=0.5)
    assert scales.naive.value == pytest.approx(1.0, rel=0.3)
    assert scales.clustered.low is not None
    assert scales.clustered.low < scales.clustered.value
