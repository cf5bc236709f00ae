"""Values that no caller should send, for the command line and for Python."""

from __future__ import annotations

import datetime
import decimal
import fractions
import random
from typing import Any

import numpy as np

TEXTS = ("nan", "inf", "-inf", "-1", "0", "-0", "1e308", "1e400", "-1e400", "4294967296", "9223372036854775808",
         "18446744073709551616", "1e30", "1" + "0" * 4000, "abc", "", " ", "0x10", "1_0", "1__0", "٣", "½", "1,5",
         "True", "None", "[]", "1e-320", "../..", "%s%n", "--json", "ünï", "\udcff", "2.5",
         "-2147483649")  # fmt: skip


def text(rng: random.Random) -> str:
    return rng.choice(TEXTS)


def value(rng: random.Random) -> Any:
    """Return a Python value of some wrong or extreme kind."""
    return rng.choice(VALUES)


VALUES: tuple[Any, ...] = (
    float("nan"), float("inf"), float("-inf"), -1, 0, -0.0, 1e308, 2**31, 2**32, 2**40 + 1, 2**53, 2**63, 2**64, 10**30,
    10**4000, -(2**63), 1.5, "abc", "", "nan", "64", b"64", None, True, False, [], [1, 2], (), (1,), {}, {"a": 1},
    set(), object(), int, len, np.float64("nan"), np.int64(-1), np.int64(64), np.array([1, 2, 3]), np.array(4),
    np.zeros((2, 2)), np.array("x"), decimal.Decimal("NaN"), decimal.Decimal(64), fractions.Fraction(1, 3), 1j,
    datetime.date(2024, 1, 1), range(3), slice(1), NotImplemented, Ellipsis, "a\x00b", "\ud800", "x" * 100_000,
)  # fmt: skip
