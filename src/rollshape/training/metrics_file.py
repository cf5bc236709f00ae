"""metrics.jsonl: rows are only appended; a row that is missing or damaged is reported, never skipped."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from rollshape.checksums import Extent
from rollshape.errors import RequestError, RunError
from rollshape.files import append, disk_errors

Row = dict[str, Any]
RESTORE = "Restore the file from a copy, or train again in another directory: the same spec gives the same run."


class MetricsFile:
    """The rows of a run. A writer knows the checksum of everything that it has written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._digest, self._size = hashlib.sha256(), 0  # of what this process has written or continues from

    def append(self, row: Row) -> None:
        """Append a row; if another program changed the file, raise instead of adding to it."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size != self._size:
            raise RunError(
                "metrics",
                f"{self.path} was changed by another program while the run wrote to it: it has {size:,} bytes instead "
                f"of {self._size:,}.",
                RESTORE,
            )
        line = json.dumps(row, allow_nan=False).encode() + b"\n"
        append(self.path, line)
        self._digest.update(line)
        self._size += len(line)

    def sync(self) -> Extent:
        """Write all rows through to the disk; return their extent, for the checkpoint that follows them."""
        if self._size:
            with disk_errors(self.path), self.path.open("rb") as file:
                os.fsync(file.fileno())
        return Extent(self._size, self._digest.hexdigest())

    def check(self, extent: Extent) -> None:
        """Raise a RequestError that names the first bad row if the file does not begin with the extent."""
        content = self._read()
        if extent.covers(content):
            return
        hole = _find_hole(_parse(self.path, content))
        missing = extent.size - len(content)
        if hole is not None:
            problem = f"the row of update {hole:,} is missing"
        elif missing > 0:
            problem = f"its last {missing:,} bytes are missing"
        else:
            problem = "a value in it was changed"
        raise RequestError("metrics", f"{self.path} is damaged: {problem}. Nothing was rewritten.", RESTORE)

    def rewind(self, extent: Extent) -> None:
        """Cut the file after the extent (`check` it first), so that a resumed run appends what comes after."""
        content = self._read()[: extent.size]
        if self.path.exists():
            with disk_errors(self.path):
                os.truncate(self.path, extent.size)
        self._digest, self._size = hashlib.sha256(content), extent.size

    def rows(self, extent: Extent | None = None) -> Iterator[Row]:
        """Yield all rows; with an extent, check it first. A last line that a crash left incomplete is skipped."""
        if extent is not None:
            self.check(extent)
        yield from _parse(self.path, self._read())

    def _read(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise RequestError("metrics", f"{self.path} cannot be read: {error.strerror}.", "Check its mode.") from None


def _parse(path: Path, content: bytes) -> list[Row]:
    """Return the rows of the complete lines; a line that is no row, or out of order, is an error."""
    *lines, _ = content.split(b"\n")
    rows: list[Row] = []
    for number, line in enumerate(lines, 1):
        row = _parse_row(line)
        if row is None or (rows and row["update"] <= rows[-1]["update"]):
            problem = (
                "is not a row of metrics" if row is None else f"repeats update {row['update']:,} or is out of order"
            )
            raise RequestError(
                "metrics", f"{path} is damaged: line {number} {problem}. Nothing was rewritten.", RESTORE
            )
        rows.append(row)
    return rows


def _parse_row(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_row = isinstance(row, dict) and all(
        type(row.get(name)) is int and row[name] > 0 for name in ("update", "timesteps")
    )
    return row if is_row else None


def _find_hole(rows: list[Row]) -> int | None:
    """Return the first update without a row, of a run that logs at equal intervals; None if there is none."""
    updates = [0, *(row["update"] for row in rows)]
    gaps = [after - before for before, after in pairwise(updates)]
    interval = min(gaps[:-1], default=0)  # the last one may be shorter
    return next((before + interval for before, gap in zip(updates, gaps, strict=False) if gap > interval > 0), None)
