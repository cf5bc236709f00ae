"""Windows of many lengths at once, against gradients that are built step by step."""

from typing import Any

import jax
import numpy as np
import pytest

from rollshape.gradients import gram
from rollshape.gradients.windows import Weights, stack_weights, sum_windows, windows

ENVS, STEPS = 3, 26
LENGTHS = (1, 2, 3, 4, 12, 13, 26)
LAYERS = {  # inputs, outputs, positions, bias: by products for all T, for some, for none; a convolution; log_std
    "wide": (40, 30, None, True),
    "narrow": (2, 3, None, False),
    "convolution": (6, 5, 4, True),
    "no input": (0, 2, None, True),
}


def layer(name: str, chance: np.random.Generator) -> tuple[gram.Trace, np.ndarray]:
    """A trace, and the gradients of its steps, [N, T, P]."""
    inputs, outputs, positions, bias = LAYERS[name]
    lead = (ENVS, STEPS) if positions is None else (ENVS, STEPS, positions)
    a, d = (chance.normal(size=(*lead, width)).astype(np.float32) for width in (inputs, outputs))
    shared = positions is not None
    at = "ntpi,ntpo->ntio" if shared else "nti,nto->ntio"
    weight = np.einsum(at, a, d).reshape(ENVS, STEPS, -1)
    own = [d.sum(2) if shared else d] if bias else []
    trace: Any = gram.Trace(a, d, bias=bias, shared=shared)  # type: ignore[arg-type]
    return trace, np.concatenate([weight, *own], -1)


def weights_of(chance: np.random.Generator) -> list[Weights]:
    """Every T with weights of its own; reference and long T are the same for all, as far as windows go."""
    reference, long = (chance.normal(size=(ENVS, STEPS)).astype(np.float32) for _ in range(2))
    found = []
    for length in LENGTHS:
        size = STEPS // length * length
        here = chance.normal(size=(ENVS, size)).astype(np.float32)
        found.append(Weights(length, here, long[:, :size], reference[:, :size]))
    return found


@pytest.mark.parametrize("short", [0, 4, 100], ids=lambda n: f"products to {n} terms")
def test_all_lengths_at_once_are_each_alone(short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gram, "SHORT", short)
    jax.clear_caches()
    chance = np.random.default_rng(0)
    traces, gradients = zip(*(layer(name, chance) for name in LAYERS), strict=True)
    steps, weights = np.concatenate(gradients, -1).astype(np.float64), weights_of(chance)
    for found, each in zip(windows(traces, weights), weights, strict=True):
        size, length = each.size, each.num_steps
        means = (steps[:, :size] * each.windowed[..., None]).reshape(ENVS, size // length, length, -1).mean(2)
        np.testing.assert_allclose(found.window_norms, (means**2).sum(-1).mean(1), rtol=1e-5)
        rows = [
            (found.row_gram, each.windowed),
            (found.bias_gram, each.windowed - each.reference),
            (found.window_bias_gram, each.windowed - each.long),
            (found.references.gram, each.reference),
            (found.references.estimator_gram, each.long - each.reference),
        ]
        for products, weight in rows:
            row = (steps[:, :size] * weight[..., None]).mean(1)
            wanted = row @ row.T
            np.testing.assert_allclose(products, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())
        true = (steps[:, :size] * each.reference[..., None]).mean((0, 1))
        np.testing.assert_allclose(found.references.gradient, true, rtol=1e-4, atol=1e-5)


def test_sums_are_laid_out_like_rows() -> None:
    chance = np.random.default_rng(1)
    traces = [layer(name, chance)[0] for name in LAYERS]
    weights = weights_of(chance)
    _, sums = sum_windows(traces, stack_weights(weights, STEPS), LENGTHS)
    wanted = gram.rows(gram.scale_traces(traces, weights[-1].windowed))
    np.testing.assert_allclose(np.asarray(sums[:, len(LENGTHS) - 1]) / STEPS, wanted, rtol=1e-4, atol=1e-5)
