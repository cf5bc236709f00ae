"""Compiler options: XLA accepts them, and other platforms than the CPU get none."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.compiler_options import quick_options, training_options

Options = Callable[[], dict[str, Any] | None]
ALL = [training_options, quick_options, partial(quick_options, is_long=True)]


@pytest.mark.parametrize("options", ALL)
def test_options_are_those_of_the_platform(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    assert options() is not None
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert options() is None


@pytest.mark.parametrize("options", ALL)
def test_xla_accepts_the_options(options: Options) -> None:
    program = jax.jit(lambda x: jnp.tanh(x) + 1, compiler_options=options())
    np.testing.assert_allclose(program(np.float32(0.5)), np.tanh(0.5) + 1, rtol=1e-6)


def test_long_programs_keep_what_makes_them_fast() -> None:
    assert quick_options() != quick_options(is_long=True)


def test_unknown_options_would_be_refused() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match="No such compile option"):
        jax.jit(lambda x: x + 1, compiler_options={"xla_cpu_no_such_option": True})(1.0)
