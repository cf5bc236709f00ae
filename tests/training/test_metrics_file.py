"""Rows are appended, verified and cut; a row that is missing or damaged is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollshape.errors import RequestError, RunError
from rollshape.training.metrics_file import MetricsFile


def row(update: int) -> dict[str, Any]:
    return {"update": update, "timesteps": update * 32, "episodic_return": 1.5}


@pytest.fixture
def metrics(tmp_path: Path) -> MetricsFile:
    """Five rows, every second update, the last interval shorter."""
    file = MetricsFile(tmp_path / "metrics.jsonl")
    for update in (2, 4, 6, 8, 9):
        file.append(row(update))
    return file


def replace_line(path: Path, number: int, *lines: str) -> None:
    old = path.read_text().splitlines()
    path.write_text("".join(f"{line}\n" for line in (*old[: number - 1], *lines, *old[number:])))


def test_rows_come_back_and_a_torn_last_line_is_skipped(metrics: MetricsFile) -> None:
    extent = metrics.sync()
    with metrics.path.open("a") as file:
        file.write('{"update": 1')
    assert [row["update"] for row in metrics.rows(extent)] == [2, 4, 6, 8, 9]


@pytest.mark.parametrize(
    ("number", "lines", "problem"),
    [
        (3, ['{"update": 6, "timest'], "line 3 is not a row"),
        (3, ["[" * 100_000], "line 3 is not a row"),
        (3, ["null"], "line 3 is not a row"),
        (3, ['{"update": "6", "timesteps": 192}'], "line 3 is not a row"),
        (3, [json.dumps(row(6))] * 2, "line 4 repeats update 6"),
        (2, [json.dumps(row(6)), json.dumps(row(4))], "line 3 repeats update 4 or is out of order"),
    ],
)
def test_the_first_bad_row_is_named(number: int, lines: list[str], problem: str, metrics: MetricsFile) -> None:
    extent = metrics.sync()
    replace_line(metrics.path, number, *lines)
    before = metrics.path.read_bytes()
    for check in (lambda: list(metrics.rows()), lambda: metrics.check(extent)):
        with pytest.raises(RequestError, match=problem):
            check()
    assert metrics.path.read_bytes() == before


@pytest.mark.parametrize(("number", "update"), [(1, 2), (2, 4), (3, 6), (4, 8)])
def test_a_missing_row_is_named(number: int, update: int, metrics: MetricsFile) -> None:
    extent = metrics.sync()
    replace_line(metrics.path, number)
    with pytest.raises(RequestError, match=f"the row of update {update} is missing"):
        metrics.check(extent)


def test_a_changed_value_and_a_missing_end_are_recognized(metrics: MetricsFile) -> None:
    extent, original = metrics.sync(), metrics.path.read_text()
    metrics.path.write_text(original.replace("1.5", "1.4", 1))
    with pytest.raises(RequestError, match="a value in it was changed"):
        metrics.check(extent)
    metrics.path.write_text("".join(original.splitlines(keepends=True)[:3]))
    with pytest.raises(RequestError, match="bytes are missing"):
        metrics.check(extent)
    metrics.path.unlink()
    with pytest.raises(RequestError, match="bytes are missing"):
        list(metrics.rows(extent))


def test_a_resumed_run_cuts_what_comes_after_and_appends(metrics: MetricsFile, tmp_path: Path) -> None:
    shorter = MetricsFile(tmp_path / "other.jsonl")
    for update in (2, 4):
        shorter.append(row(update))
    again = MetricsFile(metrics.path)
    again.check(shorter.sync())
    again.rewind(shorter.sync())
    for update in (6, 8, 9):
        again.append(row(update))
    assert again.sync() == metrics.sync()
    assert [row["update"] for row in again.rows(metrics.sync())] == [2, 4, 6, 8, 9]


def test_another_writer_is_noticed(metrics: MetricsFile) -> None:
    other = MetricsFile(metrics.path)
    with pytest.raises(RunError, match="changed by another program"):
        other.append(row(11))
    metrics.path.unlink()
    with pytest.raises(RunError, match="0 bytes instead of"):
        metrics.append(row(11))
