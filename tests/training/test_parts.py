"""Normalisers, stagger modes and the reset-phase meter."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.agents.normalizer import (
    Moments,
    compute_moments,
    empty_moments,
    merge_moments,
    normalize,
    scale_reward,
    standardize,
)
from rollshape.envs.functional import start
from rollshape.envs.registry import make
from rollshape.training.driver import histogram_entropy, phase_histogram
from rollshape.training.stagger import stagger_episodes
from rollshape.training.streams import stream_key


def alone(batch: np.ndarray, valid: np.ndarray | None = None) -> Moments:
    """The moments of one shard that is all there is."""
    axes = tuple(range(max(1, batch.ndim - 1)))
    counted = None if valid is None else jnp.asarray(valid)
    return compute_moments(lambda x: x, jnp.asarray(batch, jnp.float32), axes, counted)


def test_moments_of_batches_are_those_of_all_samples() -> None:
    chance = np.random.default_rng(0)
    batches = [
        chance.normal(3, 2, size=(5, 7, 4)),
        chance.normal(-1, 1, size=(50, 2, 4)),
        chance.normal(size=(1, 1, 4)),
    ]
    moments = empty_moments((4,))
    for batch in batches:
        moments = merge_moments(moments, alone(batch))
    everything = np.concatenate([batch.reshape(-1, 4) for batch in batches])
    np.testing.assert_allclose(moments.mean, everything.mean(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(moments.variance, everything.var(0), rtol=1e-3)
    seen = np.asarray(normalize(moments, jnp.asarray(everything, jnp.float32)))
    np.testing.assert_allclose(seen.std(0), 1, atol=0.01)


def test_a_scaled_reward_keeps_its_sign() -> None:
    moments = merge_moments(empty_moments(()), alone(np.array([100.0, 300.0])))
    assert scale_reward(moments, jnp.array([-50.0, 50.0])).tolist() == pytest.approx([-0.5, 0.5], rel=1e-2)


def test_samples_that_are_not_valid_count_nothing() -> None:
    batch, valid = np.array([[1.0, 2.0], [900.0, -900.0], [3.0, 6.0]]), np.array([True, False, True])
    moments = alone(batch, valid)
    assert moments.mean.tolist() == [2.0, 4.0]
    assert moments.variance.tolist() == [1.0, 4.0]
    assert moments.weight.tolist() == [2.0, 2.0]


def test_standardised() -> None:
    values = np.array([1.0, 2.0, 3.0])
    result = standardize(alone(values), jnp.asarray(values))
    assert float(result.mean()) == pytest.approx(0, abs=1e-6)
    assert float(result.std()) == pytest.approx(1)
    single = np.array([5.0])
    assert standardize(alone(single), jnp.asarray(single)).tolist() == [5.0]  # no deviation, and no NaN


def test_the_reset_phase_meter() -> None:
    def meter(steps: jax.Array, horizon: int) -> float:
        return float(histogram_entropy(phase_histogram(steps, horizon, jnp.ones_like(steps))))

    assert meter(jnp.full((8, 64), 7), 500) == pytest.approx(0)
    assert meter(jnp.arange(512).reshape(8, 64), 512) == pytest.approx(1)
    assert meter(jnp.array([[0] * 32 + [300] * 32]), 500) == pytest.approx(np.log(2) / np.log(16), rel=1e-5)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_stagger_modes(name: str) -> None:
    env = make(name)
    fresh = jax.vmap(partial(start, env))(jax.random.split(jax.random.key(0), 64))
    assert stagger_episodes("none", env, fresh, jax.random.key(1)) is fresh
    counted = stagger_episodes("counter", env, fresh, jax.random.key(1))
    np.testing.assert_array_equal(counted.observation, fresh.observation)
    assert int(counted.steps.max()) > 0.8 * env.horizon
    burnt = jax.jit(lambda episodes: stagger_episodes("burn-in", env, episodes, jax.random.key(1)))(fresh)
    assert int(burnt.steps.max()) < env.horizon
    assert len(np.unique(np.asarray(burnt.steps))) > 16
    assert not np.allclose(burnt.observation, fresh.observation)


def test_streams_do_not_shift_each_other() -> None:
    keys = {
        (stream, index): tuple(jax.random.key_data(stream_key(3, stream, index)).tolist())
        for stream in ("init", "env", "policy", "shuffle", "eval")
        for index in range(50)
    }
    assert len(set(keys.values())) == 250
    carried = stream_key(jnp.asarray(3, jnp.uint32), "policy", jnp.asarray(7))
    assert tuple(jax.random.key_data(carried).tolist()) == keys["policy", 7]
