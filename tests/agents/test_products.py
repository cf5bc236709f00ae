"""`multiply` is x·W, and its gradients are those of x·W; only where they are computed on a CPU differs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.agents.products import multiply, weight_gradient

SHAPES = [((4,), (4, 6)), ((8, 4), (4, 6)), ((8, 6), (6, 1)), ((2, 8, 3), (2, 3, 5)), ((2, 8, 5), (2, 5, 2))]


def draw(shape: tuple[int, ...], seed: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


@pytest.mark.parametrize(("x_shape", "weight_shape"), SHAPES)
def test_gradients_are_those_of_the_product(x_shape: tuple[int, ...], weight_shape: tuple[int, ...]) -> None:
    x, weight = draw(x_shape, 0), draw(weight_shape, 1)
    slope = draw((*x_shape[:-1], weight_shape[-1]), 2)

    def total(product: jax.Array) -> jax.Array:
        return jnp.sum(jnp.tanh(product) * slope)

    value, found = jax.jit(jax.value_and_grad(lambda *pair: total(multiply(*pair)), (0, 1)))(x, weight)
    expected_value, expected = jax.value_and_grad(lambda *pair: total(jnp.matmul(*pair)), (0, 1))(x, weight)
    np.testing.assert_allclose(value, expected_value, rtol=1e-5)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_narrower_matrix_is_transposed_in_memory() -> None:
    def transposed(inputs: int, outputs: int) -> str:
        shapes = [jax.ShapeDtypeStruct((32, width), jnp.float32) for width in (inputs, outputs)]
        return str(jax.jit(weight_gradient).lower(*shapes).as_text())

    assert "tensor<6x32xf32>" in transposed(6, 12)
    assert "tensor<12x32xf32>" not in transposed(6, 12)
    assert "tensor<6x32xf32>" in transposed(12, 6)
    assert "tensor<12x32xf32>" not in transposed(12, 6)


def test_vmap_over_weights() -> None:
    x, weights = draw((8, 4), 0), draw((3, 4, 2), 1)
    gradient = jax.vmap(jax.grad(lambda weight: multiply(x, weight).sum()))(weights)
    np.testing.assert_allclose(gradient, np.broadcast_to(np.asarray(x.sum(0))[:, None], (3, 4, 2)), rtol=1e-5)


def test_numpy_stays_numpy() -> None:
    x, weight = np.ones((8, 4), np.float32), np.ones((4, 2), np.float32)
    assert isinstance(multiply(x, weight), np.ndarray)


def test_other_platforms_multiply_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    def traced() -> str:
        shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in SHAPES[1]]
        return str(jax.make_jaxpr(lambda *pair: multiply(*pair))(*shapes))

    assert "custom_vjp" in traced()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert "custom_vjp" not in traced()
