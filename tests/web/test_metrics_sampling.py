"""Curves are read in bounded memory, whatever happens to the file."""

import itertools
import json
import tracemalloc
from pathlib import Path

import pytest

from rollshape.web.metrics import MOST_POINTS, columns, last_row, new_rows, sample_rows


def write_rows(path: Path, count: int, padding: int = 0) -> None:
    with path.open("w") as file:
        for i in range(1, count + 1):
            file.write(
                json.dumps({"update": i, "timesteps": 100 * i, "eval_return": float(i), "x": "a" * padding}) + "\n"
            )


def test_all_rows_of_a_short_run(tmp_path: Path) -> None:
    write_rows(tmp_path / "m", 50)
    assert [row["update"] for row in sample_rows(tmp_path / "m")] == list(range(1, 51))


@pytest.mark.parametrize("padding", [0, 4000])
def test_a_long_run_is_sampled_evenly_with_both_ends(tmp_path: Path, padding: int) -> None:
    write_rows(tmp_path / "m", 5_000, padding)
    updates = [row["update"] for row in sample_rows(tmp_path / "m")]
    assert updates[0] == 1
    assert updates[-1] == 5_000
    assert MOST_POINTS - 2 <= len(updates) <= MOST_POINTS + 1
    gaps = [after - before for before, after in itertools.pairwise(updates)]
    assert max(gaps) <= 8
    assert min(gaps) >= 1


def _read_large(path: Path, size: int) -> int:
    """Return the peak of memory while a file of so many bytes is sampled."""
    row = json.dumps({"update": 1, "timesteps": 1, "eval_return": 1.0, "padding": "x" * 900}) + "\n"
    block = "".join(row.replace('"update": 1', f'"update": {i}') for i in range(1, 1001)).encode()
    with path.open("wb") as file:
        for _ in range(size // len(block)):
            file.write(block)
    tracemalloc.start()
    rows = sample_rows(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows
    assert last_row(path)["update"] == 1000  # type: ignore[index]
    return peak


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    assert _read_large(tmp_path / "m", 60_000_000) < 20_000_000


@pytest.mark.slow
def test_memory_of_a_gigabyte(tmp_path: Path) -> None:
    assert _read_large(tmp_path / "m", 1_000_000_000) < 20_000_000


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"{}\n", b"\xff\x00", b"[1]\n" * 9, b'{"update": 1, "timesteps": NaN}\n']
)
def test_what_is_not_a_row_is_skipped(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m").write_bytes(content)
    assert sample_rows(tmp_path / "m") == []
    assert last_row(tmp_path / "m") is None
    assert new_rows(tmp_path / "m", 0)[0] == []


def test_a_damaged_line_does_not_hide_the_others(tmp_path: Path) -> None:
    write_rows(tmp_path / "m", 3)
    lines = (tmp_path / "m").read_bytes().splitlines(keepends=True)
    (tmp_path / "m").write_bytes(lines[0] + b"\x00garbage\n" + lines[2] + lines[1][:9])
    assert [row["update"] for row in sample_rows(tmp_path / "m")] == [1, 3]
    assert last_row(tmp_path / "m")["update"] == 3  # type: ignore[index]


def test_a_missing_file_has_no_rows(tmp_path: Path) -> None:
    assert sample_rows(tmp_path / "m") == []
    assert new_rows(tmp_path / "m", 7) == ([], 7)


def test_a_file_that_grows_and_shrinks(tmp_path: Path) -> None:
    write_rows(tmp_path / "m", 3)
    rows, offset = new_rows(tmp_path / "m", 0)
    assert len(rows) == 3
    with (tmp_path / "m").open("a") as file:
        file.write('{"update": 4, "timesteps": 400}\n{"update": 5')
    rows, offset = new_rows(tmp_path / "m", offset)
    assert [row["update"] for row in rows] == [4]
    with (tmp_path / "m").open("a") as file:
        file.write(', "timesteps": 500}\n')
    rows, offset = new_rows(tmp_path / "m", offset)
    assert [row["update"] for row in rows] == [5]
    write_rows(tmp_path / "m", 2)  # a resumed run removed rows
    assert [row["update"] for row in new_rows(tmp_path / "m", offset)[0]] == [1, 2]


def test_columns_hold_finite_numbers_only() -> None:
    rows = [{"update": 1, "timesteps": 2, "a": 1.5, "b": "x"}, {"update": 2, "timesteps": 4, "a": None, "c": 10**400}]
    assert columns(rows) == {"update": [1, 2], "timesteps": [2, 4], "a": [1.5, None]}
