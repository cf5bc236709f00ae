"""A policy as one object: network, observation normalizer and action distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax import Array

from rollshape.agents.distributions import ActionDistribution, sample
from rollshape.agents.normalizer import Moments, normalize_obs


class Policy(eqx.Module):
    """A policy at one moment of training; it takes raw observations [..., *shape].

    `network(observations)` returns (outputs for the distribution [..., num_outputs], values [...]); `network.value`
    returns the values alone, and `network.actor_fn()` a function that computes the outputs alone.
    """

    network: Any
    moments: Moments | None  # of observations; None where they are not normalized
    distribution: ActionDistribution = eqx.field(static=True)

    def normalize(self, observation: Any) -> Array:
        """Return the observation as the network reads it."""
        return normalize_obs(self.moments, observation)

    def __call__(self, observation: Any) -> tuple[Array, Array]:
        """Return (outputs for the distribution, values)."""
        outputs, values = self.network(self.normalize(observation))
        return outputs, values

    def value(self, observation: Any) -> Array:
        values: Array = self.network.value(self.normalize(observation))
        return values

    def sample(self, key: Array, observation: Any) -> Array:
        """Sample actions."""
        return sample(self.distribution, key, self.network.actor_fn()(self.normalize(observation)))

    def actor_fn(self) -> Callable[[Any, Any], Array]:
        """Return a function (observation, noise) → action that evaluates the actor alone.

        With NumPy parameters it computes in NumPy, which is faster than a compiled program for a few observations.
        """
        outputs, select, moments = self.network.actor_fn(), self.distribution.select, self.moments
        return lambda observation, noise: select(outputs(normalize_obs(moments, observation)), noise)

    def on_device(self, device: Any = None) -> Policy:
        """Return a copy on one device (the first by default), to use outside the shards."""
        placed: Policy = jax.device_put(self, device or jax.local_devices()[0])
        return placed
