"""Metrics as a table: a DataFrame of pandas or polars where one is installed, else plain columns."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.util import find_spec
from typing import Any

import numpy as np

LIBRARIES = ("pandas", "polars")
SHOWN_ROWS = 10


class Columns(Mapping[str, Any]):
    """Columns by name, as arrays; a value that does not exist is NaN. It stands for a DataFrame if there is none."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"Columns has no {name!r}: neither pandas nor polars is installed, so this is a mapping of names to NumPy "
            "arrays. `pip install pandas` makes it a DataFrame."
        )

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    def __repr__(self) -> str:
        rows = len(next(iter(self._columns.values()), ()))
        return f"Columns({rows} rows: {', '.join(self._columns)})"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self._columns)
        rows = list(zip(*self._columns.values(), strict=True))
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(str(value))}</td>' for value in row)}</tr>" for row in rows[:SHOWN_ROWS]
        )
        more = f"<p>{len(rows):,} rows</p>" if len(rows) > SHOWN_ROWS else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def to_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows as a DataFrame, of the library that is imported already, else of an installed one; else `Columns`."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    values = {name: [row.get(name) for row in rows] for name in names}
    library = next((name for name in LIBRARIES if name in sys.modules), None) or next(
        (name for name in LIBRARIES if find_spec(name) is not None), None
    )
    if library == "polars":
        import polars

        return polars.DataFrame(values, strict=False)
    columns = {name: _to_array(column) for name, column in values.items()}
    if library == "pandas":
        import pandas

        return pandas.DataFrame(columns)
    return Columns(columns)


def _to_array(values: Sequence[Any]) -> Any:
    """Return numbers as an array with NaN for None; lists and text stay as they are."""
    known = [value for value in values if value is not None]
    if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in known):
        column = np.empty(len(values), object)
        column[:] = list(values)
        return column
    if len(known) == len(values) and all(isinstance(value, int) for value in known):
        return np.asarray(values, np.int64)
    return np.asarray([np.nan if value is None else value for value in values], np.float64)
