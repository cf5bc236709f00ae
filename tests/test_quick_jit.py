"""`quick_jit`: a function gives what it gives without it."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp

from rollshape.quick_jit import quick_jit


def test_both_kinds_of_jit() -> None:
    @partial(quick_jit, static_argnums=1)
    def power(x: jax.Array, exponent: int) -> jax.Array:
        return x**exponent

    @partial(quick_jit, jit=eqx.filter_jit)
    def scale(name: str, x: jax.Array) -> jax.Array:
        return x * len(name)

    assert power(jnp.asarray(3.0), 2) == 9
    assert scale("four", jnp.asarray(3.0)) == 12
