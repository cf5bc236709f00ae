"""The reward network's gradient: predicted variances of batches against batches that were drawn."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from rollshape.agents.soft import soft_distribution_for
from rollshape.algorithms.replay import store
from rollshape.algorithms.rrd import reward_network_loss, sample_subsequences
from rollshape.errors import RequestError
from rollshape.probes.quantities.redistribution import measure_redistribution
from rollshape.probes.quantities.reward_gradient import reward_gradient_surface
from rollshape.probes.subject import Checkpoint
from rollshape.training.setup import new_driver, plan_run
from rollshape.training.spec import Spec


@pytest.fixture(scope="module")
def collected() -> tuple[Any, Any]:
    """A replay of random Pendulum with eight episodes, and an untrained reward network."""
    spec = Spec(env="Pendulum-v1", algo="rrd", num_envs=4, steps_per_iteration=400, hidden_sizes=(8,),
                learning_starts=2_000, total_timesteps=4_000)  # fmt: skip
    driver: Any = new_driver(spec, plan_run(spec))
    state, keep, collect = driver.start(), jax.jit(store), jax.jit(driver.collect)
    for _ in range(4):
        episodes, rollout = collect(state)
        learner = state.learner._replace(buffer=keep(state.learner.buffer, rollout))
        state = state._replace(episodes=episodes, learner=learner, update=state.update + 1)
    return driver, state


def test_the_variance_of_a_batch_is_what_was_predicted_and_bias_falls_with_k(collected: tuple[Any, Any]) -> None:
    driver, state = collected
    few, many = reward_gradient_surface(Checkpoint(driver, state), 64, [2, 32])
    assert (few.num_subsequences, many.num_subsequences) == (32, 2)
    policy, network, replay = soft_distribution_for(driver.env.action), state.learner.agent.reward, state.learner.buffer

    @jax.jit
    def batches(key: jax.Array) -> jax.Array:
        def one(key: jax.Array) -> jax.Array:
            drawn = sample_subsequences(replay, (key, jax.random.fold_in(key, 1)), (many.num_subsequences,), 32)
            return ravel_pytree(jax.grad(reward_network_loss)(network, policy, replay, drawn, False))[0]

        return jax.lax.map(one, jax.random.split(key, 600))

    rows = np.asarray(batches(jax.random.key(9)), np.float64)
    measured = rows.var(0, ddof=1).sum()
    assert measured == pytest.approx(many.variance.value, rel=0.15)
    assert many.variance.low < many.variance.value < many.variance.high
    assert few.bias2.value > many.bias2.value
    assert few.mse >= few.variance.value
    (corrected,) = reward_gradient_surface(Checkpoint(driver, state), 64, [2], unbiased=True)
    assert corrected.bias2.value == 0
    assert corrected.variance.value > 0


def test_what_cannot_be_cut_is_named(collected: tuple[Any, Any]) -> None:
    driver, state = collected
    for size in (1, 5):
        with pytest.raises(RequestError, match="does not divide"):
            reward_gradient_surface(Checkpoint(driver, state), 64, [size])
    with pytest.raises(RequestError, match="no reward network"):
        reward_gradient_surface(Checkpoint(driver, driver.start()), 64, [2])


def test_true_and_redistributed_reward_along_an_episode(collected: tuple[Any, Any]) -> None:
    driver, state = collected
    found = measure_redistribution(Checkpoint(driver, state))
    assert found.true.shape == found.predicted.shape == (200,)
    assert (found.true <= 0).all()
    assert -1 <= (found.correlation or 0) <= 1
    replay = state.learner.buffer
    totals = np.asarray(replay.reward)[np.asarray(replay.kind) == 3]
    assert np.isclose(totals, found.true.sum(), rtol=1e-4).any()  # the return that was told
