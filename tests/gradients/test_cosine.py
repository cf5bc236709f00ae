"""Cosines against the rule p ≈ |G|²/(|G|² + tr Var), and coherence on gradients that turn at a known pace."""

import numpy as np
import pytest

from rollshape.gradients.cosine import coherence, cosines, pairwise_cosine, predicted_cosines, reference_cosine
from rollshape.gradients.intervals import Z


def test_batches_of_known_noise() -> None:
    """In 2000 dimensions cosines concentrate: two batches have p, one and the truth √p."""
    truth = np.zeros(2000)
    truth[0] = 1
    batches = truth + np.random.default_rng(0).normal(size=(40, 2000)) * np.sqrt(3 / 2000)
    p, root = predicted_cosines(1.0, 3.0)
    assert (p, root) == (0.25, 0.5)
    pairwise = pairwise_cosine(batches @ batches.T)
    assert pairwise.value == pytest.approx(p, abs=0.02)
    assert pairwise.low < pairwise.value < pairwise.high
    to_truth = reference_cosine(batches @ truth, (batches**2).sum(1), 1.0)
    assert to_truth.value == pytest.approx(root, abs=0.02)
    assert predicted_cosines(-0.5, 3.0) == (0.0, 0.0)


def test_pairwise_is_the_mean_of_all_pairs() -> None:
    batches = np.random.default_rng(0).normal(size=(5, 3))
    unit = batches / np.linalg.norm(batches, axis=1, keepdims=True)
    wanted = (unit @ unit.T)[np.triu_indices(5, 1)].mean()
    assert pairwise_cosine(batches @ batches.T).value == pytest.approx(wanted)


def test_a_step_without_gradient_has_cosine_zero() -> None:
    found = cosines([[2.0, 0.0], [0.0, 0.0]], [4.0, 0.0], [1.0, 9.0])
    np.testing.assert_array_equal(found, [[1.0, 0.0], [0.0, 0.0]])


def turning(updates: np.ndarray, pace: float) -> np.ndarray:
    angles = pace * updates
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1) * (1 + updates[:, None])
    return vectors @ vectors.T


def test_coherence_of_a_turning_gradient() -> None:
    """cos(k·π/20) is positive for k < 10; the sum over every update, whether seen each update or every other."""
    wanted = np.cos(np.arange(10) * np.pi / 20).sum()
    every = np.arange(30)
    assert coherence(turning(every, np.pi / 20), every) == pytest.approx(wanted)
    assert coherence(turning(every[::2], np.pi / 20), every[::2]) == pytest.approx(wanted, rel=0.02)


def test_coherence_at_its_ends() -> None:
    assert coherence(np.ones((4, 4)), [0, 1, 2, 3]) == pytest.approx(4)  # never turns, as far as is seen
    assert coherence(np.eye(4), [0, 1, 2, 3]) == pytest.approx(1)
    assert coherence(-np.ones((2, 2)), [0, 1]) == 1  # no checkpoint shows a signal
    lost = np.ones((3, 3))
    lost[1, 1] = -1
    assert coherence(lost, [0, 1, 2]) == pytest.approx(3)


def test_the_interval_leaves_out_batches() -> None:
    batches = np.random.default_rng(1).normal(size=(6, 3)) + 1
    kept = [np.delete(batches, k, axis=0) for k in range(6)]
    means = np.array([pairwise_cosine(b @ b.T).value for b in kept])
    found = pairwise_cosine(batches @ batches.T)
    assert (found.high - found.low) / 2 == pytest.approx(Z * np.sqrt(5 / 6 * ((means - means.mean()) ** 2).sum()))
