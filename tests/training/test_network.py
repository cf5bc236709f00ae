"""Networks of the caller's: any Equinox module with the documented signature."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from rollshape.agents.activations import ACTIVATIONS
from rollshape.agents.distributions import distribution_for
from rollshape.agents.networks import ActorCritic
from rollshape.envs.spaces import Action, Discrete, Observation
from rollshape.errors import RequestError
from rollshape.training.reproduce import first_difference
from rollshape.training.run import train
from rollshape.training.setup import open_run

SMALL: dict[str, Any] = {
    "num_envs": 8, "num_steps": 16, "num_epochs": 2, "total_timesteps": 8 * 16 * 6, "hidden_sizes": (8,),
    "log_every": 2, "checkpoint_every": 2,
}  # fmt: skip


class SharedTorso(eqx.Module):
    """One torso for both heads, as the built-in network is not."""

    torso: eqx.nn.Linear
    heads: eqx.nn.Linear

    def __init__(self, key: Array, observation: Observation, action: Action) -> None:
        first, second = jax.random.split(key)
        self.torso = eqx.nn.Linear(observation.shape[0], 16, key=first)
        self.heads = eqx.nn.Linear(16, distribution_for(action).num_outputs + 1, key=second)

    def __call__(self, observations: Array) -> tuple[Array, Array]:
        rows = observations.reshape(-1, observations.shape[-1])
        out = jax.vmap(lambda x: self.heads(jax.nn.swish(self.torso(x))))(rows)
        out = out.reshape(*observations.shape[:-1], -1)
        return out[..., :-1], out[..., -1]


class TwoMLPs(eqx.Module):
    """Equinox's own MLPs, which hold functions beside their arrays."""

    actor: eqx.nn.MLP
    critic: eqx.nn.MLP

    def __init__(self, key: Array, observation: Observation, action: Action) -> None:
        first, second = jax.random.split(key)
        size, outputs = observation.shape[0], distribution_for(action).num_outputs
        self.actor = eqx.nn.MLP(size, outputs, 8, 1, activation=jax.nn.gelu, key=first)
        self.critic = eqx.nn.MLP(size, "scalar", 8, 1, key=second)

    def __call__(self, observations: Array) -> tuple[Array, Array]:
        actor, critic = self.actor, self.critic
        for _ in range(observations.ndim - 1):
            actor, critic = jax.vmap(actor), jax.vmap(critic)
        return actor(observations), critic(observations)


def test_modules_with_functions_inside_train(tmp_path: Path) -> None:
    run = train(out=tmp_path / "run", env="CartPole-v1", network=TwoMLPs, **{**SMALL, "num_shards": 2})
    assert run.status == "done"
    driver, state = open_run(run.path, network=TwoMLPs)
    assert driver.score(state, 0, 8).episodes == 8


@pytest.mark.parametrize(
    ("network", "problem"),
    [
        (lambda *_: lambda x: x, "not an Equinox module"),
        (lambda key, observation, _: eqx.nn.Linear(observation.shape[0], 3, key=key), "fails on observations"),
        (lambda key, observation, _: SharedTorso(key, observation, Discrete(5)), "expected"),
    ],
)
def test_a_network_that_does_not_fit_is_refused_with_its_shapes(network: Any, problem: str) -> None:
    with pytest.raises(RequestError, match=problem) as caught:
        train(env="CartPole-v1", network=network, **SMALL)
    assert "observations" in caught.value.fix


@pytest.mark.parametrize("env", ["CartPole-v1", "gymnasium:CartPole-v1"])
def test_a_custom_network_trains_and_resumes(env: str, tmp_path: Path) -> None:
    settings = {**SMALL, "env": env}
    whole = train(out=tmp_path / "whole", network=SharedTorso, **settings)
    assert whole.status == "done"
    assert np.isfinite(whole.metrics[-1]["value_loss"])

    class Stop(Exception):
        pass

    def on_row(row: dict[str, Any], _: Any) -> None:
        if row["update"] == 4:
            raise Stop

    with pytest.raises(Stop):
        train(out=tmp_path / "broken", network=SharedTorso, on_row=on_row, **settings)
    resumed = train(out=tmp_path / "broken", network=SharedTorso, resume=True, **settings)
    assert first_difference(whole.metrics, resumed.metrics) == ""
    driver, state = open_run(whole.path, network=SharedTorso)
    assert isinstance(driver.policy(state).network.module, SharedTorso)
    driver.close()


def test_a_module_is_where_training_starts(tmp_path: Path) -> None:
    module = SharedTorso(jax.random.key(5), Observation((4,)), Discrete(2))
    train(out=tmp_path / "run", env="CartPole-v1", network=module, keep_checkpoints=1, **SMALL)
    _, state = open_run(tmp_path / "run", 0, network=module)
    for old, new in zip(jax.tree.leaves(module), jax.tree.leaves(state.learner.network), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_run_with_a_custom_network_says_so_when_it_is_opened_without_it(tmp_path: Path) -> None:
    train(out=tmp_path / "run", env="CartPole-v1", network=SharedTorso, **SMALL)
    with pytest.raises(RequestError, match="SharedTorso") as caught:
        open_run(tmp_path / "run")
    assert "network=" in caught.value.fix


def test_sac_has_networks_of_its_own() -> None:
    with pytest.raises(RequestError, match="their own networks"):
        train(env="Pendulum-v1", algo="sac", network=SharedTorso)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_activations_in_numpy_are_those_of_jax(name: Any) -> None:
    x = np.linspace(-4, 4, 41, dtype=np.float32)
    np.testing.assert_allclose(ACTIVATIONS[name](x), ACTIVATIONS[name](jnp.asarray(x)), atol=1e-6)  # type: ignore[index]
    network = ActorCritic(jax.random.key(0), Observation((3,)), Discrete(2), (8, 8), name)
    observations = jax.random.normal(jax.random.key(1), (5, 3))
    outputs, _ = network(observations)
    arrays = jax.device_get(network)
    np.testing.assert_allclose(arrays.actor_fn()(np.asarray(observations)), outputs, atol=1e-5)
