"""Reading metrics.jsonl for curves: in bounded memory and time, while the file grows, vanishes or is damaged."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rollshape.typed import parse_json

MOST_POINTS = 1_000
WHOLE_BYTES = 4_000_000  # up to this size, all rows are read
LONGEST_ROW = 1_000_000
TAIL_BYTES = (8_192, 1_000_000)  # read from the end to find the last row: most rows are short
MOST_NEW_BYTES = 1_000_000  # read at once from a file that grows

Row = dict[str, Any]


def sample_rows(path: Path, most: int = MOST_POINTS) -> list[Row]:
    """Return at most so many rows of a run, evenly spaced, with the first and the last; [] without a file.

    A large file is not read as a whole: lines are read at evenly spaced positions. Lines that are not rows are skipped.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if size <= WHOLE_BYTES:
                rows = list(_parse_lines(file.read(WHOLE_BYTES)))
                return _thin(rows, most)
            rows = [row for row in (_row_at(file, size * i // most) for i in range(most)) if row is not None]
    except OSError:
        return []
    last = last_row(path)
    unique = {row["update"]: row for row in [*rows, *([last] if last else [])]}
    return [unique[update] for update in sorted(unique)]


def last_row(path: str | Path) -> Row | None:
    """Return the last complete row, from the end of the file."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            for tail in TAIL_BYTES:
                file.seek(max(0, size - tail))
                content = file.read(tail)
                end = content.rfind(b"\n") + 1
                while end > 0:
                    start = content.rfind(b"\n", 0, end - 1) + 1
                    if (row := _parse_row(content[start:end])) is not None:
                        return row
                    end = start
                if tail >= size:
                    break
    except OSError:
        return None
    return None


def new_rows(path: Path, offset: int) -> tuple[list[Row], int]:
    """Return the rows after an offset and the offset of the next one; a file that became shorter starts over."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = offset if size >= offset else 0
            file.seek(start)
            content = file.read(MOST_NEW_BYTES)
    except OSError:
        return [], offset
    complete = content[: content.rfind(b"\n") + 1]
    if not complete and len(content) == MOST_NEW_BYTES:  # no row is that long
        return [], start + len(content)
    return list(_parse_lines(complete)), start + len(complete)


def _row_at(file: Any, position: int) -> Row | None:
    """Return the first complete row that begins at a position or after it."""
    file.seek(position)
    if position:
        file.readline(LONGEST_ROW)
    return _parse_row(file.readline(LONGEST_ROW))


def _parse_lines(content: bytes) -> Iterator[Row]:
    for line in content.split(b"\n")[: None if content.endswith(b"\n") else -1]:
        row = _parse_row(line + b"\n")
        if row is not None:
            yield row


def _parse_row(line: bytes) -> Row | None:
    if not line.endswith(b"\n"):
        return None
    try:
        row = parse_json(line)
    except ValueError:
        return None
    is_row = isinstance(row, dict) and all(type(row.get(name)) is int for name in ("update", "timesteps"))
    return row if is_row else None


def _thin(rows: list[Row], most: int) -> list[Row]:
    if len(rows) <= most:
        return rows
    return [rows[i * (len(rows) - 1) // (most - 1)] for i in range(most)]


def number(value: Any) -> float | int | None:
    """Return a finite number, or None for anything else that a file may hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if abs(value) < 1e300 and math.isfinite(value) else None


def columns(rows: list[Row], metrics: tuple[str, ...] | None = None) -> dict[str, list[float | int | None]]:
    """Return the metrics of rows by name (all that are numbers in some row), always with update and timesteps."""
    names = dict.fromkeys(name for row in rows for name, value in row.items() if number(value) is not None)
    always = ("update", "timesteps", "wall_time")
    wanted = [name for name in names if metrics is None or name in metrics or name in always]
    return {name: [number(row.get(name)) for row in rows] for name in wanted}
