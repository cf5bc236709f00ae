"""Soft actor-critic as pure functions: twin critics, automatic temperature (Haarnoja et al. 2018).

Continuous actions are a squashed Gaussian's; with discrete ones the expectation over the policy is exact
(Christodoulou 2019). Networks take batches [M, …].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.distributions import Categorical, SquashedGaussian
from rollshape.agents.networks import IMAGE_AXES, ImageEncoder
from rollshape.agents.products import multiply
from rollshape.envs.spaces import Action, Continuous, Discrete, Observation
from rollshape.errors import RequestError

SoftDistribution = SquashedGaussian | Categorical
TWINS = 2
DISCRETE_ENTROPY = 0.5  # of the largest one; Christodoulou's .98 keeps a policy of two choices close to uniform


class Batch(NamedTuple):
    """Transitions [M, …]; `next_observation` is where the action really led, also at a time limit."""

    observation: Array
    action: Array
    reward: Array
    terminated: Array
    next_observation: Array


class Network(eqx.Module):
    """`copies` towers of ReLU layers side by side, over features of an observation and of extra inputs.

    Weights start uniform within ±1/√in, as PyTorch's do.
    """

    encoder: ImageEncoder | None
    weights: tuple[Array, ...]  # [copies, in, out]
    biases: tuple[Array, ...]
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self, key: Array, observation: Observation, hidden: tuple[int, ...], outputs: int, *,
        extra_inputs: int = 0, with_change: bool = False, copies: int = 1,
    ) -> None:  # fmt: skip
        encoder_key, key = jax.random.split(key)
        self.shape, self.encoder, width = observation.shape, None, math.prod(observation.shape)
        if len(observation.shape) == IMAGE_AXES:
            self.encoder = ImageEncoder(encoder_key, observation.shape)
            width = self.encoder.features
        sizes = (width * (2 if with_change else 1) + extra_inputs, *hidden, outputs)
        shapes = [(copies, a, b) for a, b in itertools.pairwise(sizes)]
        splits = [sum(math.prod(shape) for shape in shapes[:i]) for i in range(1, len(shapes))]
        uniform = jnp.split(jax.random.uniform(key, (sum(map(math.prod, shapes)),), minval=-1.0), splits)
        self.weights = tuple(x.reshape(s) / math.sqrt(s[1]) for x, s in zip(uniform, shapes, strict=True))
        self.biases = tuple(jnp.zeros((copies, 1, size)) for size in sizes[1:])

    def features(self, observations: Array) -> Array:
        """[M, *shape] → [M, in]."""
        if self.encoder is not None:
            return self.encoder(observations)
        return observations.reshape(observations.shape[0], -1).astype(jnp.float32)

    def head(self, x: Array) -> Array:
        """Features and what stands extra_inputs them, [M, in] → [copies, M, outputs]."""
        h = multiply(jnp.broadcast_to(x, (len(self.weights[0]), *x.shape)), self.weights[0]) + self.biases[0]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            h = multiply(jax.nn.relu(h), weight) + bias
        return h

    def __call__(self, observations: Array, *extra_inputs: Array) -> Array:
        return self.head(jnp.concatenate([self.features(observations), *extra_inputs], axis=-1))


class SoftAgent(eqx.Module):
    """All that SAC trains, and the critics' slow copies. Called, it answers as an ActorCritic does."""

    actor: Network
    critics: Network
    targets: Network
    log_temperature: Array
    reward: Network | None  # RRD's
    action: Action = eqx.field(static=True)

    def __call__(self, observations: Array) -> tuple[Array, Array]:
        """(outputs for the action's distribution, values: the critics' values of the policy's mode), [..., *shape]."""
        outputs, distribution = self.actor_fn()(observations), soft_distribution_for(self.action)
        leading, rows = outputs.shape[:-1], observations.reshape(-1, *self.actor.shape)
        chosen = distribution.mode(outputs.reshape(-1, outputs.shape[-1]))
        return outputs, q_values(self.critics, distribution, rows, chosen).min(0).reshape(leading)

    def actor_fn(self) -> Callable[[Array], Array]:
        """Return the actor alone: observations → outputs."""
        actor, axes = self.actor, len(self.actor.shape)
        return lambda observations: actor(observations.reshape(-1, *actor.shape))[0].reshape(
            *observations.shape[: observations.ndim - axes], -1
        )

    def value(self, observations: Array) -> Array:
        return self(observations)[1]

    def with_reward(self, reward: Network) -> SoftAgent:
        return SoftAgent(self.actor, self.critics, self.targets, self.log_temperature, reward, self.action)

    @property
    def temperature(self) -> Array:
        return jnp.exp(self.log_temperature)


@cache
def soft_distribution_for(action: Action) -> SoftDistribution:
    """The distribution that SAC trains over an action space; always the same object."""
    match action:
        case Discrete(n):
            return Categorical(n)
        case Continuous(dim, low, high):
            return SquashedGaussian(dim, low, high)
    raise RequestError(
        "environment", "SAC and RRD take one discrete choice or a vector, not several choices at once.", "Use PPO."
    )


def new_soft_agent(
    key: Array, observation: Observation, action: Action, hidden: tuple[int, ...], reward: bool
) -> SoftAgent:  # fmt: skip
    """Fresh networks, temperature 1; a reward network where RRD wants one."""
    actor_key, critic_key, reward_key = jax.random.split(key, 3)
    distribution = soft_distribution_for(action)
    extra_inputs, choices = (0, action.n) if isinstance(action, Discrete) else (action_width(action), 1)
    critics = Network(critic_key, observation, hidden, choices, extra_inputs=extra_inputs, copies=TWINS)
    return SoftAgent(
        actor=Network(actor_key, observation, hidden, distribution.num_outputs),
        critics=critics,
        targets=jax.tree.map(jnp.copy, critics),
        log_temperature=jnp.zeros(()),
        reward=Network(reward_key, observation, hidden, 1, extra_inputs=action_width(action), with_change=True)
        if reward
        else None,
        action=action,
    )


def random_actions(distribution: SoftDistribution, noise: Array) -> Array:
    """Actions uniform over their space, from the distribution's noise: the normal's CDF is uniform."""
    if isinstance(distribution, SquashedGaussian):
        return distribution.to_env(jax.lax.erf(noise / math.sqrt(2)))
    return jnp.argmax(noise, axis=-1)


def action_width(action: Action) -> int:
    if isinstance(action, Continuous):
        return action.dim
    assert isinstance(action, Discrete)
    return action.n


def encode_action(distribution: SoftDistribution, action: Array) -> Array:
    """Actions as a network reads them: unit actions, or one-hot choices."""
    if isinstance(distribution, SquashedGaussian):
        return distribution.to_unit(action)
    return jax.nn.one_hot(action, distribution.num_outputs)


def q_values(critics: Network, distribution: SoftDistribution, observations: Array, action: Array) -> Array:
    """Q of actions in the environment's units, [M, …] → [2, M]."""
    if isinstance(distribution, SquashedGaussian):
        return critics(observations, distribution.to_unit(action))[..., 0]
    return jnp.sum(critics(observations) * encode_action(distribution, action), axis=-1)


def soft_values(
    actor: Network,
    critics: Network,
    temperature: Array,
    distribution: SoftDistribution,
    observations: Array,
    noise: Array,
) -> tuple[Array, Array]:
    """Return (V, log π) [M]: V = E_π[min Q − α·log π], by one sampled action, or exactly for discrete actions."""
    outputs = actor(observations)[0]
    if isinstance(distribution, SquashedGaussian):
        unit, log_prob = distribution.sample_with_log_prob(outputs, noise)
        return critics(observations, unit)[..., 0].min(0) - temperature * log_prob, log_prob
    log_probs = jax.nn.log_softmax(outputs)
    shares = jnp.exp(log_probs)
    values = critics(observations).min(0)
    return jnp.sum(shares * (values - temperature * log_probs), -1), jnp.sum(shares * log_probs, -1)


def critic_targets(reward: Array, terminated: Array, next_value: Array, gamma: float) -> Array:
    """y = r + γ·(1 − terminated)·V(s′): a time limit bootstraps, an end does not."""
    return reward + gamma * jnp.where(terminated, 0.0, next_value)


def critic_loss(critics: Network, distribution: SoftDistribution, batch: Batch, targets: Array) -> Array:
    """Σ over the twins of ½·mean((Q − y)²)."""
    return 0.5 * jnp.sum(
        jnp.mean((q_values(critics, distribution, batch.observation, batch.action) - targets) ** 2, axis=-1)
    )


def actor_loss(
    actor: Network,
    critics: Network,
    temperature: Array,
    distribution: SoftDistribution,
    observations: Array,
    noise: Array,
) -> tuple[Array, Array]:
    """(−mean V, mean log π): α·log π − min Q, averaged."""
    values, log_prob = soft_values(actor, critics, temperature, distribution, observations, noise)
    return -values.mean(), log_prob.mean()


def temperature_loss(log_temperature: Array, log_prob: Array, target_entropy: float) -> Array:
    """−log α·(log π + H̄): α falls while the policy's entropy is above its target."""
    return -log_temperature * (log_prob + target_entropy)


def target_entropy(action: Action) -> float:
    """−dim for unit actions; half of the largest entropy for choices."""
    return -float(action.dim) if isinstance(action, Continuous) else DISCRETE_ENTROPY * math.log(action_width(action))


def polyak_average(targets: Network, critics: Network, polyak: float) -> Network:
    """θ′ ← p·θ′ + (1 − p)·θ."""
    slow: Network = jax.tree.map(lambda old, new: polyak * old + (1.0 - polyak) * new, targets, critics)
    return slow
