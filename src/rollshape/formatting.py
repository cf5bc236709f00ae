"""Numbers as text, the same everywhere a person reads them."""

from __future__ import annotations

from typing import Any

LONGEST_REPR = 60
LONGEST_INTEGER = 128  # bits that are written out: Python refuses to write integers of thousands of digits


def format_number(value: float) -> str:
    """Return three significant digits, or all digits of a large number: 0.123, 45.6, 12,345."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def format_bytes(count: float) -> str:
    """Return a size in decimal units: 1_234_567 → '1.23 MB'."""
    units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"]
    while count >= 1000 and len(units) > 1:
        count, units = count / 1000, units[1:]
    return f"{count:.0f} {units[0]}" if units[0] == "B" else f"{count:.3g} {units[0]}"


def format_integer(value: int) -> str:
    """Return an integer with separators: 12,345; of a huge one only its size."""
    bits = value.bit_length()
    return f"{value:,}" if bits <= LONGEST_INTEGER else f"an integer of {bits:,} bits"


def short_repr(value: Any) -> str:
    """Return the repr of any value on one line of at most 60 characters, for messages: 64, 'abc', [1, 2, 3…."""
    if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER:
        return format_integer(value)
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a stranger's object, or one that holds such an integer
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= LONGEST_REPR else text[: LONGEST_REPR - 1] + "…"
