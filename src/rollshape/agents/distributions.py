"""Action distributions over a network's raw outputs [..., num_outputs]; leading axes are independent samples."""

from __future__ import annotations

from functools import cache
from math import isfinite
from typing import Protocol

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.arrays import namespace
from rollshape.envs.spaces import Action, Continuous, Discrete, MultiDiscrete

LOG_2PI = 1.8378770664093453


class ActionDistribution(Protocol):
    """A distribution over actions. An action is a function of the outputs and of noise, which can be drawn in bulk.

    `select` and `mode` also take NumPy's arrays.
    """

    num_outputs: int

    def draw_noise(self, key: Array, shape: tuple[int, ...]) -> Array: ...
    def select(self, outputs: Array, noise: Array) -> Array: ...
    def mode(self, outputs: Array) -> Array: ...
    def log_prob(self, outputs: Array, action: Array) -> Array: ...
    def entropy(self, outputs: Array) -> Array: ...


def sample(policy: ActionDistribution, key: Array, outputs: Array) -> Array:
    """Actions for outputs [..., num_outputs]."""
    return policy.select(outputs, policy.draw_noise(key, outputs.shape[:-1]))


class Categorical:
    """One choice of n: the outputs are logits. Chosen by the Gumbel trick."""

    def __init__(self, n: int) -> None:
        self.num_outputs = n

    def draw_noise(self, key: Array, shape: tuple[int, ...]) -> Array:
        return jax.random.gumbel(key, (*shape, self.num_outputs))

    def select(self, outputs: Array, noise: Array) -> Array:
        return self.mode(outputs + noise)

    def mode(self, outputs: Array) -> Array:
        best: Array = namespace(outputs).argmax(outputs, axis=-1)
        return best

    def log_prob(self, outputs: Array, action: Array) -> Array:
        chosen = jnp.arange(self.num_outputs) == action[..., None]  # the gradient of a gather is a slow scatter
        return jnp.sum(jnp.where(chosen, jax.nn.log_softmax(outputs), 0.0), axis=-1)

    def entropy(self, outputs: Array) -> Array:
        log_p = jax.nn.log_softmax(outputs)
        return -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)


class MultiCategorical:
    """Several independent choices: the logits of all of them, one after the other."""

    def __init__(self, choices: tuple[int, ...]) -> None:
        self.num_outputs = sum(choices)
        self._parts = [Categorical(n) for n in choices]
        self._cuts = [sum(choices[:i]) for i in range(1, len(choices))]

    def _split(self, outputs: Array) -> list[Array]:
        return list(namespace(outputs).split(outputs, self._cuts, axis=-1))

    def draw_noise(self, key: Array, shape: tuple[int, ...]) -> Array:
        return jax.random.gumbel(key, (*shape, self.num_outputs))

    def select(self, outputs: Array, noise: Array) -> Array:
        return self.mode(outputs + noise)

    def mode(self, outputs: Array) -> Array:
        best = [part.mode(logits) for part, logits in zip(self._parts, self._split(outputs), strict=True)]
        stacked: Array = namespace(outputs).stack(best, axis=-1)
        return stacked

    def log_prob(self, outputs: Array, action: Array) -> Array:
        parts = enumerate(zip(self._parts, self._split(outputs), strict=True))
        return jnp.sum(jnp.stack([p.log_prob(o, action[..., i]) for i, (p, o) in parts]), axis=0)

    def entropy(self, outputs: Array) -> Array:
        return jnp.sum(
            jnp.stack([p.entropy(o) for p, o in zip(self._parts, self._split(outputs), strict=True)]), axis=0
        )


class Gaussian:
    """Independent normals: the outputs are the means followed by the logarithms of the deviations."""

    def __init__(self, dim: int) -> None:
        self.num_outputs = 2 * dim
        self._dim = dim

    def draw_noise(self, key: Array, shape: tuple[int, ...]) -> Array:
        return jax.random.normal(key, (*shape, self._dim))

    def select(self, outputs: Array, noise: Array) -> Array:
        chosen: Array = outputs[..., : self._dim] + namespace(outputs).exp(outputs[..., self._dim :]) * noise
        return chosen

    def mode(self, outputs: Array) -> Array:
        return outputs[..., : self._dim]

    def log_prob(self, outputs: Array, action: Array) -> Array:
        mean, log_std = outputs[..., : self._dim], outputs[..., self._dim :]
        z = (action - mean) * jnp.exp(-log_std)
        return -jnp.sum(0.5 * z**2 + log_std + 0.5 * LOG_2PI, axis=-1)

    def entropy(self, outputs: Array) -> Array:
        return jnp.sum(outputs[..., self._dim :] + 0.5 * (LOG_2PI + 1.0), axis=-1)


class SquashedGaussian:
    """a = c + h·tanh(u), u normal: within finite bounds c ± h (Haarnoja et al. 2018). Unbounded ones squash to ±1.

    The outputs are the means of u and the logarithms of its deviations; densities are those of the unit action tanh(u),
    so that they do not depend on an environment's units.
    """

    LOW, HIGH = -20.0, 2.0  # of the logarithm of a deviation

    def __init__(self, dim: int, low: float, high: float) -> None:
        self.num_outputs = 2 * dim
        self._dim = dim
        bounded = isfinite(low) and isfinite(high)
        self._centre, self._half = ((high + low) / 2, (high - low) / 2) if bounded else (0.0, 1.0)

    def draw_noise(self, key: Array, shape: tuple[int, ...]) -> Array:
        return jax.random.normal(key, (*shape, self._dim))

    def select(self, outputs: Array, noise: Array) -> Array:
        return self.to_env(self.sample_with_log_prob(outputs, noise)[0])

    def mode(self, outputs: Array) -> Array:
        return self.to_env(jnp.tanh(outputs[..., : self._dim]))

    def to_env(self, unit: Array) -> Array:
        """A unit action in the environment's units."""
        return self._centre + self._half * unit

    def to_unit(self, action: Array) -> Array:
        return (action - self._centre) / self._half

    def sample_with_log_prob(self, outputs: Array, noise: Array) -> tuple[Array, Array]:
        """(unit actions [..., dim], their log densities [...]), differentiable by the outputs."""
        mean, log_std = self._parts(outputs)
        u = mean + jnp.exp(log_std) * noise
        return jnp.tanh(u), -jnp.sum(0.5 * noise**2 + log_std + 0.5 * LOG_2PI + _log_slope(u), axis=-1)

    def log_prob(self, outputs: Array, action: Array) -> Array:
        mean, log_std = self._parts(outputs)
        u = jnp.arctanh(jnp.clip(self.to_unit(action), -1.0 + 1e-6, 1.0 - 1e-6))
        z = (u - mean) * jnp.exp(-log_std)
        return -jnp.sum(0.5 * z**2 + log_std + 0.5 * LOG_2PI + _log_slope(u), axis=-1)

    def entropy(self, outputs: Array) -> Array:
        """To first order, tanh taken as linear around the mean: there is no closed form."""
        mean, log_std = self._parts(outputs)
        return jnp.sum(log_std + 0.5 * (LOG_2PI + 1.0) + _log_slope(mean), axis=-1)

    def _parts(self, outputs: Array) -> tuple[Array, Array]:
        return outputs[..., : self._dim], jnp.clip(outputs[..., self._dim :], self.LOW, self.HIGH)


def _log_slope(u: Array) -> Array:
    """log(1 − tanh²u), without the cancellation."""
    return 2.0 * (jnp.log(2.0) - u - jax.nn.softplus(-2.0 * u))


@cache
def distribution_for(action: Action) -> ActionDistribution:
    """The distribution over an action space; always the same object, for which programs are compiled."""
    match action:
        case Discrete(n):
            return Categorical(n)
        case MultiDiscrete(choices):
            return MultiCategorical(choices)
        case Continuous(dim):
            return Gaussian(dim)
