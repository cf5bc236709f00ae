"""Checking and converting single values: whole numbers, real numbers, and options that a file can hold.

NumPy and JAX scalars become plain Python numbers. Everything else is a RequestError that names the field and its range.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rollshape.errors import RequestError
from rollshape.formatting import format_integer, short_repr

MOST_SAMPLES = 2**40
MOST_TIMESTEPS = 2**53
LEAST_FLOAT, MOST_FLOAT = 2.0**-126, 3.4e38  # of float32, in which everything is computed
_NOT_REAL = "bcmMOSU"  # dtypes of NumPy: bool, complex, times, objects, text
LONGEST_SIZE = 40  # characters of a size that is text
DEEPEST_OPTION = 8  # lists and mappings inside each other


@dataclass(frozen=True, slots=True)
class Range:
    """The legal numbers of a field: least ≤ number ≤ most, or number < most if `below`."""

    least: float
    most: float
    below: bool = False

    def contains(self, number: float) -> bool:
        """Return whether a number is legal; NaN is not."""
        return self.least <= number <= self.most and not (self.below and number == self.most)

    def describe(self) -> str:
        """Return the range as text, such as `a number in [0, 1)` or `a positive number`."""
        if self.most == MOST_FLOAT:
            least = {LEAST_FLOAT: "a positive number", -MOST_FLOAT: "a finite number"}.get(
                self.least, f"a finite number of at least {self.least:g}"
            )
            return f"{least} (float32: {LEAST_FLOAT:.2g} to {MOST_FLOAT:g})"
        return f"a number in [{self.least:g}, {self.most:g}{')' if self.below else ']'}"


COUNT = Range(1, MOST_SAMPLES)
BUDGET = Range(1, MOST_TIMESTEPS)
POSITIVE = Range(LEAST_FLOAT, MOST_FLOAT)
NOT_NEGATIVE = Range(0, MOST_FLOAT)
FINITE = Range(-MOST_FLOAT, MOST_FLOAT)
UNIT = Range(0, 1)
DECAY = Range(0, 1, below=True)
INTEGER = Range(-(2**63), 2**63 - 1)
SEED = Range(0, 2**32 - 1)


def whole_number(name: str, value: Any, *, least: int = 1, most: int = MOST_SAMPLES) -> int:
    """Return the value as an int within [least, most], or raise a RequestError with the field and the range."""
    number = value if type(value) is int else _to_int(value)
    if number is None:
        raise RequestError(
            "whole-number", f"{name} must be a whole number, got {short_repr(value)}.", f"Give {name} as an integer."
        )
    if not least <= number <= most:
        bound = f"at least {least:,}" if number < least else f"at most {most:,}"
        nearest = least if number < least else most
        raise RequestError(
            "whole-number",
            f"{name} must be {bound}, got {format_integer(number)}.",
            f"The nearest valid value is {nearest:,}.",
            [{name: nearest}],
        )
    return number


_SIZE = re.compile(r"[+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d+)(?:[eE][+-]?\d+)?")
_UNITS = {"k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9}


def parse_size(text: str) -> int:
    """Parse '64', '500_000', '1e6', '100M' or '10k' as an int; raise a ValueError for other text."""
    digits = text.strip()
    if digits.isdecimal() and len(digits) <= LONGEST_SIZE:
        return int(digits)
    from fractions import Fraction  # exact, but takes 8 ms to import

    unit = _UNITS.get(digits[-1:].lower(), 1) if len(digits) > 1 else 1
    digits = digits[:-1] if unit > 1 else digits
    if not _SIZE.fullmatch(digits) or len(digits) > LONGEST_SIZE:
        raise ValueError(text)
    number = Fraction(digits.replace("_", "")) * unit
    if number.denominator != 1:
        raise ValueError(text)
    return int(number)


def real_number(name: str, value: Any, bounds: Range = FINITE, default: Any = None) -> float:
    """Return the value as a finite float within the bounds, or raise a RequestError with the field and the bounds."""
    number = _to_float(value)
    if not bounds.contains(number):
        fix = f"Choose {bounds.describe()}." if default is None else f"The default is {default}."
        raise RequestError("number-range", f"{name} must be {bounds.describe()}, got {short_repr(value)}.", fix)
    return number


def is_bool_scalar(value: Any) -> bool:
    """Return whether a value is a bool of Python, NumPy or JAX."""
    if isinstance(value, bool):
        return True
    return getattr(getattr(value, "dtype", None), "kind", "") == "b" and getattr(value, "ndim", 1) == 0


def plain_scalar(value: Any) -> Any:
    """Return a scalar of NumPy or JAX as a plain bool, int or float; any other value unchanged."""
    if not hasattr(value, "dtype") or getattr(value, "ndim", 1) != 0:
        return value
    if is_bool_scalar(value):
        return bool(value)
    number = _to_int(value) if value.dtype.kind in "iu" else _to_float(value)
    return value if value.dtype.kind in _NOT_REAL else number


def plain_value(name: str, value: Any, depth: int = 0) -> Any:
    """Return a value as a file can hold it: a number, text, true, false, null, or a list or mapping of these."""
    if value is None or isinstance(value, str):
        return value
    if is_bool_scalar(value):
        return bool(value)
    if depth < DEEPEST_OPTION and isinstance(value, (list, tuple)):
        return [plain_value(f"{name}[{i}]", item, depth + 1) for i, item in enumerate(value)]
    if depth < DEEPEST_OPTION and isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {str(key): plain_value(f"{name}.{key}", item, depth + 1) for key, item in value.items()}
    if not isinstance(value, float) and _to_int(value) is not None:
        return whole_number(name, value, least=-(2**63), most=2**63 - 1)
    if math.isfinite(number := _to_float(value)):
        return number
    raise RequestError(
        "argument",
        f"{name} must be a finite number, text, true, false, or a list or mapping of these, got {short_repr(value)}.",
        "Options are stored with the run: give plain values, and names that are text.",
    )


def _to_int(value: Any) -> int | None:
    """Return an integer, or a float without a fraction, as an int; None for anything else."""
    if is_bool_scalar(value):
        return None
    try:
        return operator.index(value)
    except TypeError:
        number = _to_float(value)
        return int(number) if math.isfinite(number) and number == number // 1 else None


def _to_float(value: Any) -> float:
    """Return a real number of Python, NumPy or JAX as a float; NaN for anything else."""
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if isinstance(value, (bool, str, bytes, bytearray)) or kind in _NOT_REAL or getattr(value, "ndim", 0) != 0:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, ArithmeticError):
        return math.nan
