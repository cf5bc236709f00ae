"""Adam: steps worked by hand, and the same path as optax's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rollshape.algorithms.adam import Adam, clip_factor


def test_first_step_by_hand() -> None:
    # m̂ = g and v̂ = g² whatever the betas, so the step is η·g/(|g| + ε).
    moved, state = Adam(eps=1.0).step(jnp.asarray([1.0, 1.0]), Adam().init(jnp.zeros(2)), jnp.asarray([3.0, -1.0]), 0.1)
    np.testing.assert_allclose(moved, [1 - 0.1 * 3 / 4, 1 + 0.1 * 1 / 2], rtol=1e-6)
    assert int(state.steps) == 1


@pytest.mark.parametrize("max_norm", [None, 0.5])
@pytest.mark.parametrize(("betas", "eps"), [((0.9, 0.999), 1e-5), ((0.5, 0.9), 1e-8)])
def test_path_is_that_of_optax(max_norm: float | None, betas: tuple[float, float], eps: float) -> None:
    clip = optax.identity() if max_norm is None else optax.clip_by_global_norm(max_norm)
    theirs = optax.chain(clip, optax.scale_by_adam(*betas, eps=eps), optax.scale(-0.01))
    ours = Adam(betas, eps)
    parameters = expected = jax.random.normal(jax.random.key(0), (20,))
    state, their_state = ours.init(parameters), theirs.init(parameters)
    for i in range(20):
        gradient = jax.random.normal(jax.random.key(i + 1), (20,)) * 10.0 ** (i % 4 - 3)  # clipped and not
        scale = clip_factor(jnp.linalg.norm(gradient), max_norm)
        parameters, state = ours.step(parameters, state, gradient, 0.01, scale)
        change, their_state = theirs.update(gradient, their_state)
        expected = optax.apply_updates(expected, change)
        np.testing.assert_allclose(parameters, expected, rtol=1e-4, atol=1e-6)


def test_trees() -> None:
    tree = {"a": jnp.ones(2), "b": [jnp.zeros(())]}
    moved, state = Adam().step(tree, Adam().init(tree), jax.tree.map(jnp.ones_like, tree), 0.5)
    np.testing.assert_allclose(moved["a"], [0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(moved["b"][0], -0.5, rtol=1e-6)
    assert jax.tree.structure(state.mean) == jax.tree.structure(tree)


def test_clipping() -> None:
    assert clip_factor(jnp.asarray(2.0), None) == 1.0
    assert float(clip_factor(jnp.asarray(2.0), 0.5)) == 0.25
    assert float(clip_factor(jnp.asarray(0.1), 0.5)) == 1.0
    assert float(clip_factor(jnp.asarray(0.0), 0.5)) == 1.0  # a gradient of zeros stays one
    assert np.isnan(clip_factor(jnp.asarray(jnp.nan), 0.5))
