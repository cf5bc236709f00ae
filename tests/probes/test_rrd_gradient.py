"""The reward network's gradient: predicted variances of batches against batches that were drawn."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from rollshape.agents.sac import soft_policy
from rollshape.errors import RequestError
from rollshape.probes.quantities.redistribution import measure_redistribution
from rollshape.probes.quantities.reward_gradient import reward_gradient_surface
from rollshape.probes.subject import Checkpoint
from rollshape.training.replay import stored
from rollshape.training.replay_update import draw_subsequences, reward_network_loss
from rollshape.training.run import planned, trainer_for
from rollshape.training.spec import Spec


@pytest.fixture(scope="module")
def collected() -> tuple[Any, Any]:
    """A replay of random Pendulum with eight episodes, and an untrained reward network."""
    spec = Spec(env="Pendulum-v1", algo="rrd", num_envs=4, steps_per_iteration=400, hidden_sizes=(8,),
                learning_starts=2_000, total_timesteps=4_000)  # fmt: skip
    trainer: Any = trainer_for(spec, planned(spec))
    state, collect, keep = trainer.start(), jax.jit(trainer.collected), jax.jit(stored)
    for _ in range(4):
        episodes, chunk = collect(state)
        state = state._replace(episodes=episodes, replay=keep(state.replay, chunk), update=state.update + 1)
    return trainer, state


def test_the_variance_of_a_batch_is_what_was_predicted_and_bias_falls_with_k(collected: tuple[Any, Any]) -> None:
    trainer, state = collected
    few, many = reward_gradient_surface(Checkpoint(trainer, state), 64, [2, 32])
    assert (few.num_subsequences, many.num_subsequences) == (32, 2)
    policy, network, replay = soft_policy(trainer.env.action), state.learner.model.reward, state.replay

    @jax.jit
    def batches(key: jax.Array) -> jax.Array:
        def one(key: jax.Array) -> jax.Array:
            drawn = draw_subsequences(replay, (key, jax.random.fold_in(key, 1)), (many.num_subsequences,), 32)
            return ravel_pytree(jax.grad(reward_network_loss)(network, policy, replay, drawn, False))[0]

        return jax.lax.map(one, jax.random.split(key, 600))

    rows = np.asarray(batches(jax.random.key(9)), np.float64)
    measured = rows.var(0, ddof=1).sum()
    assert measured == pytest.approx(many.variance.value, rel=0.15)
    assert many.variance.low < many.variance.value < many.variance.high
    assert few.bias2.value > many.bias2.value
    assert few.mse >= few.variance.value
    (corrected,) = reward_gradient_surface(Checkpoint(trainer, state), 64, [2], unbiased=True)
    assert corrected.bias2.value == 0
    assert corrected.variance.value > 0


def test_what_cannot_be_cut_is_named(collected: tuple[Any, Any]) -> None:
    trainer, state = collected
    for size in (1, 5):
        with pytest.raises(RequestError, match="does not divide"):
            reward_gradient_surface(Checkpoint(trainer, state), 64, [size])
    with pytest.raises(RequestError, match="no reward network"):
        reward_gradient_surface(Checkpoint(trainer, trainer.start()), 64, [2])


def test_true_and_redistributed_reward_along_an_episode(collected: tuple[Any, Any]) -> None:
    trainer, state = collected
    found = measure_redistribution(Checkpoint(trainer, state))
    assert found.true.shape == found.predicted.shape == (200,)
    assert (found.true <= 0).all()
    assert -1 <= (found.correlation or 0) <= 1
    replay = state.replay
    totals = np.asarray(replay.reward)[np.asarray(replay.kind) == 3]
    assert np.isclose(totals, found.true.sum(), rtol=1e-4).any()  # the return that was told
