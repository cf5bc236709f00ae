"""Advantage actor-critic, synchronous (Mnih et al. 2016): one gradient step on the whole rollout.

The loss of a sample is −log π(a|s)·A + value_coef·(V − R)² − entropy_coef·H, with advantages by GAE.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from rollshape.agents.losses import policy_gradient_loss, value_loss
from rollshape.agents.normalizer import standardize
from rollshape.algorithms.actor_critic import ActorCriticAlgorithm, OnPolicySettings, Samples, gradient_norm
from rollshape.algorithms.base import Rollout, mean_of, mean_of_finite
from rollshape.algorithms.parallel import flatten

MEANS = ("policy_loss", "value_loss", "entropy", "grad_norm")


class A2CState(NamedTuple):
    """What is carried from one update to the next."""

    network: Any
    optimizer: Any
    updates: Array


class A2CMetrics(NamedTuple):
    """Per sample in the rollout; then their means."""

    policy_loss: Array
    value_loss: Array
    entropy: Array


class A2CInfo(NamedTuple):
    """What one update reports."""

    policy_loss: Array
    value_loss: Array
    entropy: Array
    explained_variance: Array
    grad_norm: Array  # before clipping
    learning_rate: Array


class A2C(ActorCriticAlgorithm):
    Settings = OnPolicySettings
    reports = (*MEANS, "explained_variance", "learning_rate")
    must_stay_finite: tuple[str, ...] = ("policy_loss", "value_loss", "grad_norm")

    def init(self, key: Array) -> A2CState:
        network = self.new_network(key)
        return A2CState(network, self.optimizer.init(flatten(network).vector), jnp.zeros((), jnp.int32))

    def update(self, state: A2CState, rollout: Rollout, key: Array) -> tuple[A2CState, A2CInfo]:
        del key  # one step on all samples needs no shuffle
        advantages, returns = self.advantages(rollout)
        samples = self.samples(rollout, advantages, returns)
        if self.spec.normalize_advantages == "minibatch":  # which is the rollout
            moments = self.parallel.moments(samples.advantage, (0,), samples.valid)
            samples = samples._replace(advantage=standardize(moments, samples.advantage))
        parameters, rate = flatten(state.network), self.learning_rate(state.updates)
        gradient, metrics = self.parallel.mean_gradient(self.loss, parameters, samples)
        parameters, optimizer = self.adam_step(parameters, state.optimizer, gradient, rate)
        info = A2CInfo(*metrics, self.explained_variance(rollout, returns), gradient_norm(gradient), rate)
        return A2CState(parameters.network, optimizer, state.updates + 1), info

    def loss(self, network: Any, batch: Samples) -> tuple[Array, A2CMetrics]:
        """Return the loss of each sample, and what is reported of it."""
        outputs, values = network(batch.observation)
        policy = policy_gradient_loss(self.distribution.log_prob(outputs, batch.action), batch.advantage)
        critic, entropy = value_loss(values, batch.returns), self.distribution.entropy(outputs)
        coefficient = self.spec.value_coef if self.has_critic else 0.0
        losses = policy + coefficient * critic - self.spec.entropy_coef * entropy
        return losses, A2CMetrics(policy, critic, entropy)

    def summarize(self, info: A2CInfo) -> dict[str, Any]:
        return {
            **{name: mean_of(getattr(info, name)) for name in MEANS},
            "explained_variance": mean_of_finite(info.explained_variance),
            "learning_rate": mean_of(info.learning_rate[-1]),
        }
