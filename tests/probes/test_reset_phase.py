"""Gradients of synchronised environments against sums over (steps of the episode, state)."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from window_answers import Known, known

from rollshape.envs.tabular import delay_chain
from rollshape.gradients.intervals import Estimate
from rollshape.probes.quantities.reset_phase import ResetPhase, measure_reset_phase
from rollshape.probes.subject import Checkpoint
from rollshape.training.setup import new_driver, plan_run
from rollshape.training.spec import Spec

LENGTH, STEPS = 12, 3


@cache
def case() -> Known:
    """Episodes of exactly 12 steps, windows of 3: four phases, and the decision falls into the first step of each 4."""
    chain = replace(delay_chain(delay=2, density=0.5, mixing=4, period=4), max_steps=LENGTH)
    return known(chain, num_steps=STEPS, num_envs=64)


@cache
def measured() -> ResetPhase:
    return measure_reset_phase(case().checkpoint, num_envs=2048)


@cache
def exact_squares() -> list[float]:
    whole, now, squares = case().window_gradient(case().stationary), case().fresh, []
    for _ in range(LENGTH // STEPS):
        gap = case().window_gradient(now) - whole
        squares.append(float(gap @ gap))
        for _ in range(STEPS):
            now = case().stepped(now)
    np.testing.assert_allclose(now, case().fresh, atol=1e-6)  # the cycle is closed
    return squares


def near(estimate: Estimate, truth: float) -> bool:
    half = (estimate.high - estimate.low) / 2
    return estimate.low - half <= truth <= estimate.high + half


def test_the_error_of_each_phase_is_the_exact_one() -> None:
    found = measured()
    assert [phase.first_step for phase in found.phases] == [0, 3, 6, 9]
    for phase, truth in zip(found.phases, exact_squares(), strict=True):
        assert near(phase.squared, truth)
    assert found.between is not None
    assert near(found.between, float(np.mean(exact_squares())))
    assert found.between.low > 0


def test_more_environments_remove_only_the_rest() -> None:
    found = measured()
    assert found.staggered_variance is not None
    assert found.between is not None
    assert found.within is not None
    # Law of total variance, but that windows begin at 4 of 12 places: a row varies within phases and between them.
    total = found.staggered_variance.value * found.num_envs
    assert found.within * found.num_envs + found.between.value == pytest.approx(total, rel=0.1)
    assert found.envs_of_balance == pytest.approx(found.within * 64 / found.between.value)


def test_histograms() -> None:
    found = measured()
    assert [phase.entropy for phase in found.phases] == pytest.approx([np.log(3) / np.log(16)] * 4, abs=1e-6)
    assert found.staggered_histogram is not None
    filled = [share for share in found.staggered_histogram if share]
    assert len(filled) == LENGTH
    assert max(filled) < 1.3 / LENGTH
    assert found.run_entropy == pytest.approx(np.log(3) / np.log(16))  # the run has just begun, all together
    document = found.to_dict()
    assert document["phases"][0]["squared"]["value"] == found.phases[0].squared.value
    assert ResetPhase.from_dict(document) == found


def test_long_horizons_are_sampled() -> None:
    found = measure_reset_phase(case().checkpoint, num_envs=32, num_phases=2)
    assert [phase.update for phase in found.phases] == [1, 3]


def test_host_environments_are_told_so() -> None:
    spec = Spec(env="gymnasium:CartPole-v1", num_envs=4, num_steps=8, hidden_sizes=(4,), total_timesteps=64)
    driver = new_driver(spec, plan_run(spec))
    found = measure_reset_phase(Checkpoint(driver, driver.start()))
    driver.close()
    assert found.between is None
    assert "runs on the host" in (found.reason or "")
