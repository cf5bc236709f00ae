"""Numbers as text, the same everywhere a person reads them."""

from __future__ import annotations


def format_number(value: float) -> str:
    """Return three significant digits, or all digits of a large number: 0.123, 45.6, 12,345."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def format_bytes(count: float) -> str:
    """Return a size in decimal units: 1_234_567 → '1.23 MB'."""
    units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"]
    while count >= 1000 and len(units) > 1:
        count, units = count / 1000, units[1:]
    return f"{count:.0f} {units[0]}" if units[0] == "B" else f"{count:.3g} {units[0]}"
