"""Timing of training: what an interval counts, and what utilisation compares."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import jax
import pytest

from rollshape.agents.networks import ActorCritic
from rollshape.envs.access import EnvAccess
from rollshape.envs.registry import make
from rollshape.errors import RequestError
from rollshape.training import bench as bench_module
from rollshape.training.bench import Bench, bench, flops_per_step
from rollshape.training.driver import Times
from rollshape.training.host_driver import HostDriver
from rollshape.training.speed import TrainingTimer, env_facts, new_spec, quartiles

HOST = "gymnasium:CartPole-v1"


def test_quartiles() -> None:
    assert quartiles([5, 1, 4, 2, 3]) == (2, 3, 4)


def test_each_shape_is_checked_before_the_first_is_timed() -> None:
    with pytest.raises(RequestError, match="is not a shape"):
        next(bench("CartPole-v1", ("4x8", "4"), 0.001))


@pytest.mark.parametrize("env", ["CartPole-v1", HOST])
def test_utilisation_is_flops_over_the_matrix_rate(env: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_module, "gemm_rate", lambda: 1e9)
    (row,) = bench(env, ("4x8",), 0.001, python="")
    # Two towers of 4-64-64, with heads of 2 and 1; one pass to act, and three for each of 4 epochs.
    flops = 2 * (2 * (4 * 64 + 64 * 64) + 64 * 3) * 13
    assert row.utilisation == pytest.approx(row.sps * flops / 1e9, rel=0.01)
    assert 0 < row.sps_low <= row.sps <= row.sps_high
    assert row.utilisation_low <= row.utilisation <= row.utilisation_high
    assert row.intervals >= 5
    assert row.peers == {}


def test_speed_counts_the_steps_of_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an update of 1 ms, 0.1 s are 5 intervals of 20 updates, after a warm-up; the environments are closed."""
    counts: list[int] = []
    closed: list[bool] = []
    advance, close = HostDriver.advance, HostDriver.close

    def timed_advance(self: HostDriver, state, count):  # type: ignore[no-untyped-def]
        counts.append(count)
        state, metrics, _ = advance(self, state, 1)
        return state, metrics, Times(count * 0.00025, count * 0.00075)

    monkeypatch.setattr(HostDriver, "advance", timed_advance)
    monkeypatch.setattr(HostDriver, "close", lambda self: (closed.append(True), close(self))[1])
    access, spec = EnvAccess(), new_spec(HOST, "4x8")
    with closing(TrainingTimer(spec, spec.plan(**env_facts(HOST, access)), 0.1001, access)) as timer:
        speeds = timer.time_intervals(0.1001)
    assert counts[:5] == [1, 1, 4, 16, 64]
    assert set(counts[5:]) == {20}
    assert speeds == pytest.approx([32_000.0] * (len(counts) - 5))
    assert len(speeds) in (5, 6)
    assert closed == [True]
    assert isinstance(timer.network, ActorCritic)
    assert flops_per_step(timer.network, 1) < flops_per_step(timer.network, 4)


@pytest.mark.parametrize(
    ("env", "expected"), [("CartPole-v1", ["sb3"]), ("tabular:DelayChain-v0", []), ("DelayChain-v0", []), (HOST, [])]
)
def test_peers_are_timed_where_they_have_the_environment(
    env: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_module, "gemm_rate", lambda: 1e9)
    monkeypatch.setattr(bench_module, "installed", lambda _: ["sb3"])
    monkeypatch.setattr(bench_module, "speed_of", lambda *_: 1.0)
    monkeypatch.setattr(bench_module, "TrainingTimer", FakeTimer)
    (row,) = bench(env, ("4x8",), 0.001)
    assert isinstance(row, Bench)
    assert list(row.peers) == expected


class FakeTimer:
    """Takes no time."""

    compile_s = 1.0

    def __init__(self, *_: Any) -> None:
        env = make("CartPole-v1")
        self.network = ActorCritic(jax.random.key(0), env.observation, env.action)

    def time_intervals(self, _: float, before_interval: Callable[[], object]) -> list[float]:
        return [1.0 for _ in range(5) if before_interval() is None]

    def close(self) -> None:
        pass
