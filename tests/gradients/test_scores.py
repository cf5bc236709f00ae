"""Networks that cannot be traced: scores by autodiff are those of the traces."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.agents.distributions import distribution_for
from rollshape.agents.networks import ActorCritic
from rollshape.envs.spaces import Action, Continuous, Discrete, Observation
from rollshape.gradients import autodiff, gram
from rollshape.gradients.scores import num_parameters, policy_rows, policy_score_norms, policy_scores, value_scores
from rollshape.gradients.traces import policy_traces, supports, value_traces

ENVS, STEPS = 3, 5


class CustomNetwork(eqx.Module):
    """The same functions as an ActorCritic, behind a class that traces does not know; with a leaf that is no array."""

    inner: ActorCritic
    shares_layers: ClassVar[bool] = False
    activation: Callable[[jax.Array], jax.Array] = jnp.tanh

    def __call__(self, observations: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.inner(observations)

    def value(self, observations: jax.Array) -> jax.Array:
        return self.inner.value(observations)

    def actor_fn(self) -> Callable[[jax.Array], jax.Array]:
        return self.inner.actor_fn()


def case(observation: Observation, action: Action) -> tuple[ActorCritic, Any, jax.Array, jax.Array, jax.Array]:
    keys = jax.random.split(jax.random.key(0), 4)
    network, distribution = ActorCritic(keys[0], observation, action, (6, 4)), distribution_for(action)
    observations = jax.random.normal(keys[1], (ENVS, STEPS, *observation.shape))
    actions = distribution.select(network(observations)[0], distribution.draw_noise(keys[2], (ENVS, STEPS)))
    return network, distribution, observations, actions, jax.random.normal(keys[3], (ENVS, STEPS))


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * float(np.abs(expected).max()))


@pytest.mark.parametrize("action", [Discrete(3), Continuous(2)], ids=["discrete", "continuous"])
def test_the_fallback_gives_the_products_of_the_traces(action: Action) -> None:
    network, distribution, observations, actions, weights = case(Observation((4,)), action)
    custom = CustomNetwork(network)
    assert supports(network)
    assert not supports(custom)
    assert num_parameters(custom) == sum(leaf.size for leaf in jax.tree.leaves(network))
    expected = gram.scale_traces(policy_scores(network, distribution, observations, actions), weights)
    found = gram.scale_traces(policy_scores(custom, distribution, observations, actions), weights)
    same(gram.gram_blocks(found), gram.gram_blocks(expected))
    same(gram.row_gram(found), gram.row_gram(expected))
    same(gram.step_norms(found), gram.step_norms(expected))
    rows = policy_rows(custom, distribution, observations, actions, weights)
    same(gram.row_gram(rows), gram.row_gram(expected))
    same(
        policy_score_norms(custom, distribution, observations, actions),
        policy_score_norms(network, distribution, observations, actions),
    )
    same(gram.gram_blocks(value_scores(custom, observations)), gram.gram_blocks(value_scores(network, observations)))


def test_traces_use_the_activation_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    network, distribution, observations, actions, _ = case(Observation((4,)), Discrete(3))
    monkeypatch.setattr(ActorCritic, "activation", staticmethod(jax.nn.relu), raising=False)

    def tower(layers: Any, x: jax.Array) -> jax.Array:
        for layer in layers[:-1]:
            x = jax.nn.relu(layer(x))
        return layers[-1](x)

    def log_prob(layers: Any, step: Any) -> jax.Array:
        return distribution.log_prob(tower(layers, step[0]), step[1])

    def value(layers: Any, observation: jax.Array) -> jax.Array:
        return tower(layers, observation)[0]

    same(
        gram.gram_blocks(policy_traces(network, distribution, observations, actions)),
        autodiff.gram_blocks(log_prob, network.actor.layers, (observations, actions)),
    )
    same(
        gram.gram_blocks(value_traces(network, observations)),
        autodiff.gram_blocks(value, network.critic.layers, observations),
    )
