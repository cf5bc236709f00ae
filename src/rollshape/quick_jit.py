"""`quick_jit` for programs that a process calls a few times: compiling them costs more than running them.

Results may differ from those of `jax.jit` in the last bits; they repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar

import jax

from rollshape.compiler_options import quick_options

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
