"""CSV tables of logs: a header and rows of numbers, read as far as the last whole line."""

from __future__ import annotations

import csv
from pathlib import Path

from rollshape.errors import RequestError
from rollshape.integrations.logs.reading import MOST_POINTS, MOST_TAGS, read_bytes

MOST_CELLS = 4 * MOST_POINTS


def read_table(path: Path, comment: str = "") -> tuple[list[str], list[list[str]], list[str]]:
    """Return (header, rows, notes) of a CSV file. A last line without its end, as after kill -9, is left out.

    Lines before the header that begin with `comment` are skipped.
    """
    content, notes = read_bytes(path), []
    if content and not content.endswith(b"\n"):
        content, _, last = content.rpartition(b"\n")
        notes.append(f"{path.name}: the last {len(last):,} bytes are an incomplete line")
    lines = content.decode("utf-8-sig", errors="replace").splitlines()
    if comment:
        lines = [line for line in lines if not line.startswith(comment)]
    try:
        header, *rows = csv.reader(lines, strict=True) if lines else [[]]
    except csv.Error as error:
        raise RequestError("log", f"{path} is not a CSV table: {error}.", "Export it again.") from None
    if len(header) > MOST_TAGS or len(header) * len(rows) > MOST_CELLS:
        raise RequestError(
            "log", f"{path} has more than {MOST_TAGS:,} columns or {MOST_CELLS:,} cells.", "Export fewer."
        )
    whole = [row for row in rows if len(row) == len(header)]
    if len(whole) < len(rows):
        notes.append(f"{path.name}: {len(rows) - len(whole):,} lines have another number of columns and are left out")
    return header, whole, notes
