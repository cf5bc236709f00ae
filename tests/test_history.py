"""benchmarks/history.py: what a line contains, and when a change is flagged."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def history() -> ModuleType:
    spec = importlib.util.spec_from_file_location("history", ROOT / "benchmarks" / "history.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ratio(low: float, value: float, high: float) -> dict[str, float]:
    return {"low": low, "value": value, "high": high}


def lines(*ratios: dict[str, float]) -> list[dict[str, Any]]:
    return [{"ratios": {"x": values}} for values in ratios]


@pytest.mark.parametrize(
    ("earlier", "new", "is_flagged"),
    [
        ([(0.3, 0.4, 0.5)], (0.45, 0.6, 0.7), False),  # the quartiles overlap
        ([(0.3, 0.4, 0.5)], (0.51, 0.6, 0.7), True),
        ([(0.3, 0.4, 0.5)], (0.1, 0.2, 0.29), True),
        ([(0.5, 0.6, 0.7), (0.3, 0.4, 0.5)], (0.51, 0.6, 0.7), False),  # as in the run before
        ([(0.5, 0.6, 0.7), *[(0.3, 0.4, 0.5)] * 5], (0.51, 0.6, 0.7), True),  # that is too long ago
    ],
)
def test_a_change_beyond_the_spread_is_flagged(
    history: ModuleType, earlier: list[Any], new: tuple[float, float, float], is_flagged: bool
) -> None:
    (change,) = history.compare({"x": ratio(*new), "new": ratio(1, 1, 1)}, lines(*(ratio(*old) for old in earlier)))
    assert (change.name, change.old, change.new) == ("x", earlier[-1][1], new[1])
    assert change.is_flagged is is_flagged


def test_only_lines_of_the_same_machine_and_load_are_compared(
    history: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.jsonl"
    assert history.record({"x": ratio(1, 2, 3)}, 0, path) == []
    first = path.read_bytes()
    capsys.readouterr()
    (change,) = history.record({"x": ratio(4, 5, 6)}, 0, path)
    assert (change.old, change.new, change.is_flagged) == (2, 5, True)
    assert "2.000 →   5.000  +150 %" in capsys.readouterr().out
    assert history.record({"x": ratio(1, 2, 3)}, 999, path) == [], "the machine was not busy before"
    assert "load 999.0" in capsys.readouterr().out
    monkeypatch.setattr(history, "cpu_model", lambda: "another CPU")
    assert history.record({"x": ratio(4, 5, 6)}, 0, path) == []
    assert path.read_bytes().startswith(first), "lines are only appended"
    assert len(path.read_text().splitlines()) == 4


def test_ratios_are_taken_within_the_run(history: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    times = {"empty python": [1.0, 2.0, 4.0, 9.0], "rollshape plan": [3.0, 6.0, 12.0, 27.0], "grid": [2.0, 4.0]}
    assert history.start_ratios(times) == {
        "rollshape plan / empty python": ratio(3, 3, 3),
        "grid / empty python": ratio(2, 2, 2),
    }


def test_the_committed_history_names_no_host_and_no_path(history: ModuleType) -> None:
    text = history.HISTORY.read_text()
    for line in map(json.loads, text.splitlines()):
        assert set(line) == {"commit", "date", "machine", "load", "ratios"}
        assert set(line["machine"]) == {"cpu", "cores", "memory_gb", "jax"}
        assert all(values["low"] <= values["value"] <= values["high"] for values in line["ratios"].values())
    assert not re.search(r"/(home|work|tmp|Users|root)\b", text)
