"""`quick_jit`: the options reach the compiler, and a function gives what it gives without it."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.quick_jit import quick_jit, quick_options


def test_options_are_those_of_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    assert quick_options() != quick_options(is_long=True)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert quick_options() is None


@pytest.mark.parametrize("is_long", [False, True])
def test_xla_accepts_the_options(is_long: bool) -> None:
    program = jax.jit(lambda x: jnp.tanh(x) + 1, compiler_options=quick_options(is_long=is_long))
    np.testing.assert_allclose(program(np.float32(0.5)), np.tanh(0.5) + 1, rtol=1e-6)


def test_unknown_options_would_be_refused() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match="No such compile option"):
        jax.jit(lambda x: x + 1, compiler_options={"xla_cpu_no_such_option": True})(1.0)


def test_both_kinds_of_jit() -> None:
    @partial(quick_jit, static_argnums=1)
    def power(x: jax.Array, exponent: int) -> jax.Array:
        return x**exponent

    @partial(quick_jit, jit=eqx.filter_jit)
    def scale(name: str, x: jax.Array) -> jax.Array:
        return x * len(name)

    assert power(jnp.asarray(3.0), 2) == 9
    assert scale("four", jnp.asarray(3.0)) == 12
