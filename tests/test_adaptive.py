"""benchmarks/adapting/rules.py: the rules that choose the shape of the next phase."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "adapting.rules", raising=False)
    import adapting.rules

    module: ModuleType = adapting.rules
    return module


def run_of(rules: ModuleType, *phases, start=(32, 32), num_phases=10):  # type: ignore[no-untyped-def]
    """A run whose phases are (shape, noise scale, effective sample size, divergence, explained variance)."""
    history = [rules.Phase(rules.Shape(*shape), rules.Signals(*signals)) for shape, *signals in phases]
    return rules.Run(rules.Shape(*start), history, num_phases, 0.99, 0.95)


def test_the_correlation_time_of_independent_and_of_equal_steps(rules: ModuleType) -> None:
    assert rules.correlation_time(0.0, 16) == 1.0
    assert rules.correlation_time(1.0, 16) == pytest.approx(16.0)
    assert rules.correlation_time(0.5, 3) == pytest.approx(1 + 2 * (2 / 3 * 0.5 + 1 / 3 * 0.25))
    assert rules.fit_decay(rules.correlation_time(0.8, 32), 32) == pytest.approx(0.8)


def test_noise_moves_one_doubling_towards_the_noise_scale_within_the_limits(rules: ModuleType) -> None:
    def after(shape: tuple[int, int], scale: float | None) -> tuple[int, int]:
        chosen: tuple[int, int] = rules.noise(run_of(rules, (shape, scale, None, None, None)))
        return chosen

    assert after((32, 32), 10_000.0) == (64, 32)
    assert after((32, 32), None) == (64, 32)  # no signal
    assert after((32, 32), 100.0) == (16, 32)
    assert after((32, 32), 1_100.0) == (32, 32)
    assert after((128, 32), None) == (128, 32)  # the largest
    assert after((8, 8), 1.0) == (8, 8)  # the smallest


def test_divergence_is_inversely_proportional_to_that_of_the_first_phase(rules: ModuleType) -> None:
    def after(divergence: float | None) -> tuple[int, int]:
        first = ((32, 32), None, None, 0.02, None)
        chosen: tuple[int, int] = rules.divergence(run_of(rules, first, ((32, 32), None, None, divergence, None)))
        return chosen

    assert after(0.01) == (64, 32)
    assert after(0.04) == (16, 32)
    assert after(0.02) == after(None) == (32, 32)


def test_split_keeps_the_rollout_size_and_weighs_the_critic_against_correlation(rules: ModuleType) -> None:
    def after(size: float | None, explained: float) -> tuple[int, int]:
        chosen: tuple[int, int] = rules.split(run_of(rules, ((32, 32), None, size, None, explained)))
        return chosen

    assert after(1024.0, 0.0) == (16, 64)  # independent steps and a poor critic: longer windows
    assert after(100.0, 1.0) == (64, 16)  # correlated steps and a perfect critic: more environments
    assert after(None, 0.0) == (32, 32)


def test_schedules_have_four_sizes_in_opposite_order(rules: ModuleType) -> None:
    def sizes(name: str) -> list[int]:
        phase = ((32, 32), None, None, None, None)
        shapes = [rules.RULES[name](run_of(rules, *[phase] * done, num_phases=8)) for done in range(8)]
        return [shape.rollout_size for shape in shapes]

    assert sizes("grow") == [256, 256, 512, 512, 1024, 1024, 2048, 2048]
    assert sizes("shrink") == sizes("grow")[::-1]
    assert rules.resize(rules.Shape(32, 32), 128) == (8, 16)  # at least 8 environments
