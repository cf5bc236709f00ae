import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from rollshape.geometry import machine as module
from rollshape.geometry.machine import Machine, assume_machine, available_memory, machine, measure_machine


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    measure_machine.cache_clear()
    monkeypatch.setattr(module, "_available", (-1.0, None))


def limit_container(path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    names = [str(path / name) for name in ("max", "current", "stat")]
    for name, text in zip(names, (limit, "700000000", "anon 5\ninactive_file 100000000\nslab 7"), strict=True):
        Path(name).write_text(f"{text}\n")
    monkeypatch.setattr(module, "_CGROUPS", (names,))


def test_total_and_available_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CGROUPS", ())
    total, available = machine().memory_bytes, available_memory()
    assert total == psutil.virtual_memory().total
    assert available is not None
    assert 0 < available <= total


def test_the_limit_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_container(tmp_path, monkeypatch, "1000000000")
    assert machine().memory_bytes == 1_000_000_000
    assert available_memory() == 400_000_000  # files in memory do not count as used


def test_a_container_without_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_container(tmp_path, monkeypatch, "max")
    assert machine().memory_bytes == psutil.virtual_memory().total


def test_the_available_memory_is_read_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    monkeypatch.setattr(module, "_read_available", lambda: reads.append(1) or len(reads))
    times = iter((10.0, 10.5, 11.5))
    clock = SimpleNamespace(monotonic=lambda: next(times))  # a module of its own: threads of other tests read the time
    monkeypatch.setattr(module, "time", clock)
    assert [available_memory() for _ in range(3)] == [1, 1, 2]


def test_without_psutil_the_memory_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert machine().memory_bytes is None
    assert available_memory() is None


def test_description() -> None:
    assert Machine(2, 25_300_000_000).describe() == "2 cores, 25.3 GB"
    assert Machine(2, None).describe() == "2 cores"


def test_a_plan_for_another_machine() -> None:
    with assume_machine(Machine(cores=3, memory_bytes=5_000)):
        assert machine() == Machine(3, 5_000)
        assert available_memory() == 5_000
    assert machine() == measure_machine()
