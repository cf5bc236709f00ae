"""`quick_jit` for programs that a process calls a few times: compiling them costs more than running them.

On a CPU, LLVM's full optimization and XLA's fusion emitters take half to two thirds of the compile time. Without the
emitters small kernels take about twice as long, so loops of thousands of steps (scoring, burn-in) keep them. Results
may differ from those of `jax.jit` in the last bits; they repeat. The program that trains is compiled by `jax.jit`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar

import jax

Function = TypeVar("Function", bound=Callable[..., Any])


def quick_jit(
    function: Function, *, jit: Callable[..., Any] = jax.jit, is_long: bool = False, **options: Any
) -> Function:
    """Return the compiled function; `jit` is `jax.jit` or `equinox.filter_jit`, with its options."""

    @cache
    def program() -> Any:  # the platform is known when the function is called, not when it is defined
        return jit(function, compiler_options=quick_options(is_long=is_long), **options)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return program()(*args, **kwargs)

    compiled: Any = call
    return compiled  # type: ignore[no-any-return]


def quick_options(*, is_long: bool = False) -> dict[str, Any] | None:
    """Return the compiler options of this platform; None where XLA's own are used."""
    if jax.default_backend() != "cpu":
        return None
    options = {"xla_backend_optimization_level": 1, "xla_cpu_parallel_codegen_split_count": 1}
    return options if is_long else {**options, "xla_cpu_use_fusion_emitters": False}
