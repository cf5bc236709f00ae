"""The three noises by simulated continuations, against sums over the chain."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from window_answers import Known, known

from rollshape.envs import exact
from rollshape.envs.tabular import TabularMDP, delay_chain, frozen_lake
from rollshape.gradients.intervals import Estimate
from rollshape.probes.quantities import step_noises
from rollshape.probes.quantities.step_noises import StepNoises, measure_step_noises
from rollshape.probes.subject import Checkpoint
from rollshape.training.setup import new_driver, plan_run
from rollshape.training.spec import Spec

STATES = 1536


def lake(max_steps: int) -> TabularMDP:
    """Holes cost 1: with the goal alone, which is seldom reached, the sampling noise is too small to be seen."""
    frozen = frozen_lake("4x4")
    costs = frozen.rewards - (frozen.terminal & (np.arange(16) != 15)) * ~frozen.terminal[:, None, None]
    return replace(frozen, rewards=costs, max_steps=max_steps)


CHAINS = {
    "delay chain": lambda: known(delay_chain(delay=2, density=0.5, mixing=4, period=4)),
    "lake": lambda: known(lake(100)),
    "lake with a short time limit": lambda: known(lake(6), num_steps=4),
    "lake by REINFORCE": lambda: known(lake(6), num_steps=4, algo="reinforce", baseline="none"),
}


@cache
def chain(name: str) -> Known:
    return CHAINS[name]()


@cache
def measured(name: str) -> StepNoises:
    return measure_step_noises(chain(name).checkpoint, num_states=STATES, num_actions=4, num_continuations=3)


def exact_noises(case: Known) -> tuple[float, float, float]:
    """A place in the window is drawn with the state, so everything is averaged over 1…T steps left."""
    true = exact.advantages(case.mdp, case.policy, case.checkpoint.spec.gamma)
    weights = case.stationary[..., None] * case.policy
    squares = (case.scores**2).sum(-1)
    gradient = np.einsum("nsa,sa,sap->p", weights, true, case.scores)
    mean, second, off2, both, lost = 0.0, 0.0, 0.0, 0.0, np.zeros_like(gradient)
    for first, square in case.moments:
        off = first - true
        mean += (weights * squares * first**2).sum()
        second += (weights * squares * square).sum()
        off2 += (weights * squares * off**2).sum()
        both += (weights * squares * true * off).sum()
        lost += np.einsum("nsa,nsa,sap->p", weights, off, case.scores)
    count = len(case.moments)
    sampling = (weights * squares * true**2).sum() - gradient @ gradient
    return sampling, (second - mean) / count, (off2 + 2 * (both - gradient @ lost)) / count


def near(estimate: Estimate, truth: float) -> bool:
    half = (estimate.high - estimate.low) / 2
    return estimate.low - half <= truth <= estimate.high + half


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAINS)
def test_they_are_the_exact_ones(name: str) -> None:
    found, truth = measured(name).noises, exact_noises(chain(name))
    assert found is not None
    parts = (found.sampling, found.trajectory, found.credit)
    for estimate, value in zip(parts, truth, strict=True):
        assert near(estimate, value)
    assert near(found.total, sum(truth))
    assert all(abs(value) > (e.high - e.low) / 2 for value, e in zip(truth, parts, strict=True))  # each one is seen


def test_what_it_says_of_itself() -> None:
    found = measured("delay chain")
    assert found.horizon == 44  # 0.9⁴⁴ < 1 %
    assert found.tail == pytest.approx(0.9**44)  # the chain never ends
    assert measured("lake").tail < 0.9**44 / 2
    document = found.to_dict()
    assert document["num_states"] == STATES
    assert document["noises"]["sampling"]["value"] == found.noises.sampling.value
    assert StepNoises.from_dict(document) == found


def test_chunks_change_nothing_but_the_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    case = chain("delay chain")
    monkeypatch.setattr(step_noises, "BRANCHES", 512)
    found = measure_step_noises(case.checkpoint, num_states=STATES, num_actions=4, num_continuations=3).noises
    assert found is not None
    assert near(found.trajectory, exact_noises(case)[1])


def test_host_environments_cannot_branch() -> None:
    spec = Spec(env="gymnasium:CartPole-v1", num_envs=4, num_steps=8, hidden_sizes=(4,), total_timesteps=64)
    driver = new_driver(spec, plan_run(spec))
    found = measure_step_noises(Checkpoint(driver, driver.start()))
    driver.close()
    assert found.noises is None
    assert "cannot be branched" in (found.reason or "")


def test_a_seed_gives_the_same_numbers() -> None:
    case = chain("delay chain")
    first, second = (
        measure_step_noises(case.checkpoint, num_states=64, num_actions=3, num_continuations=2, seed=s) for s in (1, 1)
    )
    assert first == second
