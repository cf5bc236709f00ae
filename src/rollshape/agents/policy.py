"""A policy as one object: network, observation normalizer and action distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import Array

from rollshape.agents.distributions import ActionDistribution, sample
from rollshape.agents.normalizer import Moments, normalize_obs

Act = Callable[[Array, Array], tuple[Array, dict[str, Array]]]  # (observation, noise) → (action, extras)


class Policy(eqx.Module):
    """A policy at one moment of training; it takes raw observations [..., *shape].

    `network(observations)` returns (outputs for the distribution [..., num_outputs], values [...]); `network.value`
    returns the values alone, `network.actor_fn()` a function that computes the outputs alone, and
    `network.shares_layers` whether computing one of them computes most of the other.
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

    def act_fn(self) -> Act:
        """Return a function (normalized observations [N, …], noise) → (actions, what else is known of this step).

        Values are left out where the critic has layers of its own: it is faster on many steps at once.
        """
        network, outputs_of, select = self.network, self.network.actor_fn(), self.distribution.select

        def act(observation: Array, noise: Array) -> tuple[Array, dict[str, Array]]:
            if network.shares_layers:
                outputs, value = network(observation)
                return select(outputs, noise), {"outputs": outputs, "value": value}
            outputs = outputs_of(observation)
            return select(outputs, noise), {"outputs": outputs}

        return act

    def sample(self, key: Array, observation: Any) -> Array:
        """Sample actions."""
        return sample(self.distribution, key, self.network.actor_fn()(self.normalize(observation)))

    def actor_fn(self) -> Callable[[Any, Any], Array]:
        """Return a function (observation, noise) → action that evaluates the actor alone.

        With NumPy parameters it computes in NumPy, which is faster than a compiled program for a few observations.
        """
        outputs, select, moments = self.network.actor_fn(), self.distribution.select, self.moments
        return lambda observation, noise: select(outputs(normalize_obs(moments, observation)), noise)

    def on_device(self) -> Policy:
        """Return a copy to use outside the shards.

        It is bound to no device: a program compiles again where an argument is bound and was not before.
        """
        copy: Policy = jax.tree.map(lambda x: jax.device_put(np.asarray(x), may_alias=False), self)
        return copy
