"""The knee rule on made-up speeds, and the search on a made-up machine: nothing is compiled."""

from collections.abc import Iterator
from typing import Any

import pytest

from rollshape.errors import RequestError
from rollshape.geometry import memory
from rollshape.geometry.machine import Machine
from rollshape.geometry.plan import Plan
from rollshape.training import knee
from rollshape.training.knee import EnvsSpeed, StopReason, describe_knee, find_knee, measure_knee, summarize_knee

ENV = "CartPole-v1"


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [
        ([], None),
        ([100], None),
        ([100, 100], None),  # only one doubling
        ([100, 100, 100], 0),
        ([100, 109, 109.9], 0),
        ([100, 100, 110], None),  # exactly 10 % is a gain
        ([100, 110, 100], None),
        ([100, 106, 112.4, 119.1, 126.2], None),  # steady growth of 6 % per doubling
        ([100, 200, 400, 420, 430], 2),
        ([100, 200, 150, 100], 1),  # slower counts as no gain
        ([100, 200, 400, 404, 408, 900], 2),  # the first one
        ([100, 90, 150, 150, 150], 2),  # one slow measurement does not end the growth
    ],
)
def test_knee_rule(speeds: list[float], expected: int | None) -> None:
    assert find_knee(speeds) == expected


def rows_of(*speeds: tuple[int, int, int]) -> list[EnvsSpeed]:
    """Rows of (low, median, high) steps/s at N = 1, 2, 4, …"""
    return [EnvsSpeed(2**i, sps, low, high, None, 1.0, 5, False) for i, (low, sps, high) in enumerate(speeds)]


def test_uncertainty_follows_the_quartiles() -> None:
    exact = summarize_knee(ENV, 32, "no gain", rows_of(*[(sps, sps, sps) for sps in (100, 200, 210, 212)]))
    assert (exact.knee_low, exact.knee, exact.knee_high) == (2, 2, 2)
    assert describe_knee(exact) == (
        "Knee: 2 environments (200 steps/s, quartiles 200 to 200 of 5 intervals; up to 8 environments: +6 %)."
    )
    # N = 1 may be as fast as 190, and N = 2 and 4 as slow as 200; the gain after N = 2 is below 10 % in any case.
    noisy = summarize_knee(
        ENV, 32, "no gain", rows_of((95, 100, 190), (200, 210, 220), (200, 212, 215), (205, 212, 215))
    )
    assert (noisy.knee_low, noisy.knee, noisy.knee_high) == (1, 2, 2)
    assert "1 to 2 within the quartiles" in describe_knee(noisy)
    open_ended = summarize_knee(ENV, 32, "no gain", rows_of((95, 100, 105), (90, 101, 111), (90, 101, 111)))
    assert (open_ended.knee_low, open_ended.knee, open_ended.knee_high) == (1, 1, None)
    assert "1 or more within the quartiles" in describe_knee(open_ended)


class FakeTimer:
    """Trains as fast as N up to 8 environments; `slow` are speeds of the first measurement that differ from that."""

    slow: dict[int, float]
    measured: list[int]
    running: set[int]

    def __init__(self, _: Any, plan: Plan, *__: Any) -> None:
        self.plan, self.compile_s = plan, 1.0
        self.measured.append(plan.num_envs)
        self.running.add(plan.num_envs)

    def time_intervals(self, _: float) -> list[float]:
        return [self.slow.get(self.plan.num_envs, self.time_interval())] * 5

    def time_interval(self) -> float:
        return 1000.0 * min(self.plan.num_envs, 8)

    def close(self) -> None:
        self.running.remove(self.plan.num_envs)


@pytest.fixture
def fake_speed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Replace training by the fake; return the N that are measured. In the end all of them are closed."""
    monkeypatch.setattr(FakeTimer, "slow", {}, raising=False)
    monkeypatch.setattr(FakeTimer, "measured", [], raising=False)
    monkeypatch.setattr(FakeTimer, "running", set(), raising=False)
    monkeypatch.setattr(knee, "TrainingTimer", FakeTimer)
    yield FakeTimer.measured
    assert FakeTimer.running == set()


@pytest.mark.parametrize(
    ("num_steps", "max_envs", "tried", "expected", "stopped"),
    [
        (32, 16_384, [1, 2, 4, 8, 16, 32], 8, "no gain"),
        (5, 16_384, [4, 8, 16, 32], 8, "no gain"),  # 4 minibatches
        (6, 9, [2, 4, 8], None, "max_envs"),
        (32, 1, [1], None, "max_envs"),
    ],
)
def test_search_stops(
    fake_speed: list[int], num_steps: int, max_envs: int, tried: list[int], expected: int | None, stopped: StopReason
) -> None:
    reported: list[EnvsSpeed] = []
    result = measure_knee(ENV, num_steps, max_envs, seconds=0.001, on_row=reported.append)
    assert fake_speed == tried
    assert (result.knee, result.stopped) == (expected, stopped)
    assert [row.in_turns for row in result.rows] == [n >= (expected or 99) for n in tried]
    assert {row.num_envs: row for row in reported} == {row.num_envs: row for row in result.rows}
    assert [row.ratio for row in result.rows[:2]] == [None, 2.0][: len(tried)]
    if expected is None:
        assert describe_knee(result).startswith(f"No knee up to {tried[-1]} environment")


def test_a_slow_moment_does_not_end_the_search(fake_speed: list[int]) -> None:
    """N = 2 and 4 are slow when they are measured first, but not in turns with N = 1."""
    FakeTimer.slow.update({2: 900.0, 4: 1000.0})
    result = measure_knee(ENV, seconds=0.001)
    assert fake_speed == [1, 2, 4, 8, 16, 32]
    assert result.knee == 8
    assert [row.sps for row in result.rows] == [1000, 2000, 4000, 8000, 8000, 8000]


def test_search_stops_where_memory_ends(fake_speed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 2**22  # gigabytes with a few environments
    monkeypatch.setattr(memory, "machine", lambda: Machine(2, 3_000_000_000))
    result = measure_knee(ENV, steps, seconds=0.001)
    assert result.stopped == "memory"
    assert fake_speed == [row.num_envs for row in result.rows]
    assert 1 <= len(fake_speed) < 6
    assert "do not fit into memory" in describe_knee(result)
    monkeypatch.setattr(memory, "machine", lambda: Machine(2, 1_000_000))
    with pytest.raises(RequestError, match="memory"):  # not even one environment fits
        measure_knee(ENV, steps, seconds=0.001)


def test_too_few_environments_for_the_minibatches(fake_speed: list[int]) -> None:
    with pytest.raises(RequestError, match="4 minibatches"):
        measure_knee(ENV, 5, 3)
    assert fake_speed == []
