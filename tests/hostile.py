"""Values that nobody should pass, for every place that takes a value from a user."""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from rollshape.errors import RollshapeError


class BrokenText:
    """An object whose repr raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


SCALARS: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 7, 64, -3, 2**31, 2**32, 2**40, 2**40 + 1, 2**53, 2**63, 2**64, 10**30,
    -(2**63), 10**400, 10**3999, 10**4999, -(10**4999), 0.0, -0.0, 0.5, 1.5, 64.0, 1e-300, 5e-324, 1e38, 1e39, 1e300,
    -1e300, math.nan, math.inf, -math.inf, "", "auto", "64", "abc", "nan", "1e400", "9" * 5000, "\x00", "é×√", "a\nb",
    b"", b"64", b"\xff", bytearray(b"a"), 1j,
)  # fmt: skip
OBJECTS: tuple[Any, ...] = (
    [], [1, 2], (), (1,), (64, -1), {}, {"a": 1}, {1: 2}, set(), {1, 2}, frozenset(), range(3), object(), int, len,
    lambda *_: 1, BrokenText(), Ellipsis, NotImplemented, slice(3), iter([1]), [[1], [2]], [None], ["x"], [math.nan],
    datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), decimal.Decimal("NaN"), decimal.Decimal(3),
    fractions.Fraction(1, 3),
)  # fmt: skip
ARRAYS: tuple[Any, ...] = (
    np.int64(4), np.int32(-4), np.uint8(8), np.float32(0.5), np.float64(np.nan), np.float32(np.inf), np.bool_(True),
    np.str_("sb3"), np.bytes_(b"x"), np.array(4), np.array([1, 2]), np.array([]), np.array([4]), np.array(2.5),
    np.array([[1.0]]), np.array(["a"]), np.array([None]), np.datetime64("2020-01-01"), np.complex64(1),
    jnp.int32(4), jnp.float32(0.5), jnp.array([1, 2]), jnp.array(True), jnp.array(np.nan), jnp.array([4]),
)  # fmt: skip
HOSTILE = (*SCALARS, *OBJECTS, *ARRAYS)


def raw_errors(calls: Sequence[Callable[[], Any]]) -> list[str]:
    """Make the calls; return a line for every error that is not one of ours."""
    lines = []
    for call in calls:
        try:
            call()
        except RollshapeError as error:
            assert len(error.message) < 1000, error.message[:200]
            assert "\n" not in error.message, error.message
        except Exception as error:
            lines.append(f"{type(error).__name__}: {str(error)[:150]}")
    return lines


def choose(source: random.Random) -> Any:
    """Return a hostile value, scalars more often than the rest."""
    return source.choice(source.choice((SCALARS, SCALARS, OBJECTS, ARRAYS)))
