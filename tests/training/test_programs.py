"""A process that trains many shapes keeps the programs of the latest ones only, and reuses them."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

from rollshape.geometry.machine import Machine
from rollshape.training import programs
from rollshape.training import run as training
from rollshape.training.programs import MOST_PROGRAMS, find_or_compile, release_programs
from rollshape.training.run import train


@pytest.fixture(autouse=True)
def _no_programs() -> Iterator[None]:
    release_programs()
    yield
    release_programs()


def train_shape(path: Path, num_envs: int, **options: Any) -> None:
    sizes = {"num_envs": num_envs, "num_steps": 4, "num_epochs": 1, "total_timesteps": 8 * num_envs}
    train(out=path, **{**sizes, **options})


def num_executables() -> int:
    return len(jax.local_devices()[0].client.live_executables())


def test_a_program_is_compiled_once_per_key_and_the_number_that_is_kept_is_bounded() -> None:
    compiled: list[int] = []

    def use(key: int) -> object:
        return find_or_compile(key, lambda: compiled.append(key) or object())

    assert use(0) is use(0)
    for key in range(1, MOST_PROGRAMS):
        use(key)
    use(0)
    assert compiled == list(range(MOST_PROGRAMS))
    for key in range(100, 150):
        use(key)
        assert len(programs._programs) <= MOST_PROGRAMS
    use(149)
    assert compiled[-1] == 149


def test_a_program_without_a_key_is_not_reused_but_counts() -> None:
    kept = find_or_compile("kept", object)
    assert find_or_compile(None, object) is not find_or_compile(None, object)
    for _ in range(MOST_PROGRAMS):
        find_or_compile(None, object)
    assert find_or_compile("kept", object) is not kept


def test_compiled_programs_do_not_pile_up_over_shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 2)
    counts = []
    for num_envs in (2, 3, 4, 5):
        train_shape(tmp_path / str(num_envs), num_envs)
        counts.append(num_executables())
    assert max(counts[2:]) <= counts[1], counts


def test_seeds_of_a_shape_share_one_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train_shape(tmp_path / "a", 3, seed=1)
    kept = list(programs._programs.items())
    monkeypatch.setattr("rollshape.geometry.memory.machine", lambda: Machine(cores=1, memory_bytes=10**13))
    train_shape(tmp_path / "b", 3, seed=2)
    assert list(programs._programs.items()) == kept


def test_the_driver_of_a_finished_run_is_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drivers: list[weakref.ref[Any]] = []

    def new_driver(*args: Any) -> Any:
        driver = original(*args)
        drivers.append(weakref.ref(driver))
        return driver

    original = training.new_driver
    monkeypatch.setattr(training, "new_driver", new_driver)
    train_shape(tmp_path / "functional", 3)
    train_shape(tmp_path / "host", 3, env="gymnasium:CartPole-v1")
    gc.collect()
    assert [driver() for driver in drivers] == [None, None]
