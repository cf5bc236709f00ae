import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.agents.distributions import distribution_for
from rollshape.agents.networks import ActorCritic, new_dense
from rollshape.envs.spaces import Action, Continuous, Discrete, MultiDiscrete, Observation
from rollshape.geometry.network import network_size
from rollshape.geometry.request import Request


def parameters(model: object) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(model))


@pytest.mark.parametrize("action", [Discrete(3), MultiDiscrete((2, 3)), Continuous(2)])
def test_outputs_fit_the_distribution(action) -> None:  # type: ignore[no-untyped-def]
    model = ActorCritic(jax.random.key(0), Observation((5,)), action)
    outputs, value = model(jnp.ones(5))
    assert outputs.shape == (distribution_for(action).num_outputs,)
    assert value.shape == ()
    assert float(model.value(jnp.ones(5))) == pytest.approx(float(value))


@pytest.mark.parametrize("hidden", [(), (8,), (8, 6), (8, 6, 4)])
def test_twin_towers_are_two_towers(hidden: tuple[int, ...]) -> None:
    model = ActorCritic(jax.random.key(0), Observation((5,)), Discrete(3), hidden)
    many = jax.random.normal(jax.random.key(1), (2, 7, 5))
    outputs, values = model(many)
    np.testing.assert_allclose(outputs, model.actor(many), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(values, model.critic(many)[..., 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.vmap(model))(many)[1], values, rtol=1e-5, atol=1e-6)


def test_orthogonal_with_its_gains() -> None:
    weight = np.asarray(new_dense(jax.random.key(0), 64, 64, 2.0**0.5).weight)
    np.testing.assert_allclose(weight.T @ weight, 2 * np.eye(64), atol=1e-5)
    model = ActorCritic(jax.random.key(1), Observation((4,)), Discrete(2))
    head = np.asarray(model.actor.layers[-1].weight)
    np.testing.assert_allclose(head.T @ head, 1e-4 * np.eye(2), atol=1e-8)
    assert float(jnp.abs(model(jnp.ones(4))[0]).max()) < 0.05  # the first policy is almost uniform


@pytest.mark.parametrize("shape", [(84, 84, 4), (10, 10, 3)])
def test_pictures_stay_bytes_until_the_network(shape: tuple[int, ...]) -> None:
    model = ActorCritic(jax.random.key(0), Observation(shape, "uint8"), Discrete(6))
    picture = jax.random.randint(jax.random.key(1), shape, 0, 256).astype(jnp.uint8)
    outputs, value = model(picture)
    scaled, scaled_value = model(picture.astype(jnp.float32) / 255.0)
    np.testing.assert_allclose(outputs, scaled, atol=1e-6)
    assert float(value) == pytest.approx(float(scaled_value), abs=1e-5)


@pytest.mark.parametrize(("shape", "heads"), [((4,), (2, 1)), ((84, 84, 4), (6, 1)), ((10, 10, 3), (6, 1))])
def test_the_memory_plan_counts_these_parameters(shape: tuple[int, ...], heads: tuple[int, int]) -> None:
    model = ActorCritic(jax.random.key(0), Observation(shape), Discrete(heads[0]))
    assert parameters(model) == network_size(Request(obs_shape=shape), *heads).parameters


@pytest.mark.parametrize("action", [Discrete(3), MultiDiscrete((2, 3)), Continuous(2, -1.0, 1.0)], ids=str)
def test_numpy_acts_as_jax_does(action: Action) -> None:
    model, policy = ActorCritic(jax.random.key(0), Observation((5,)), action), distribution_for(action)
    model = jax.tree.map(lambda x: x + 0.3 * jax.random.normal(jax.random.key(1), x.shape), model)  # no head of zeros
    seen = jax.random.normal(jax.random.key(2), (64, 5))
    noise = policy.draw_noise(jax.random.key(3), (64,))
    wanted = policy.select(model(seen)[0], noise)
    outputs = jax.device_get(model).actor_fn()(np.asarray(seen))
    found = policy.select(outputs, np.asarray(noise))
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
