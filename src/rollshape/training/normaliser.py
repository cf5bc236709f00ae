"""Mean and variance of what was seen, of observations, rewards and advantages (Chan, Golub and LeVeque 1983)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from rollshape.agents.arrays import namespace

Total = Callable[[Array], Array]
CLIP = 10.0
EPSILON = 1e-8


class Moments(NamedTuple):
    """Mean, variance and number of everything seen."""

    mean: Array
    variance: Array
    weight: Array  # number of samples, of each


def no_moments(shape: tuple[int, ...]) -> Moments:
    return Moments(jnp.zeros(shape), jnp.ones(shape), jnp.full(shape, 1e-4))


def moments_of(total: Total, x: Array, axes: tuple[int, ...], valid: Array | None = None) -> Moments:
    """The moments of a shard's x over these axes and over all shards, whose sums `total` adds.

    Where `valid` is given (it has the leading axes of x), of the valid samples only.
    """

    def counted(x: Array) -> Array:
        return x if valid is None else x * valid.reshape(*valid.shape, *[1] * (x.ndim - valid.ndim))

    both = jnp.stack([counted(jnp.ones_like(x)), counted(x)])  # one sum over the shards for both
    weight, mean = total(both.sum(tuple(axis + 1 for axis in axes), keepdims=True))
    most = jnp.maximum(weight, 1.0)
    mean = mean / most
    variance = total(counted((x - mean) ** 2).sum(axes, keepdims=True)) / most
    return Moments(mean.squeeze(axes), variance.squeeze(axes), weight.squeeze(axes))


def joined(a: Moments, b: Moments) -> Moments:
    """The moments of two sets of samples together."""
    total = a.weight + b.weight
    most = jnp.maximum(total, 1e-8)
    shift = b.mean - a.mean
    spread = a.variance * a.weight + b.variance * b.weight + shift**2 * a.weight * b.weight / most
    return Moments(a.mean + shift * b.weight / most, spread / most, total)


def normalise(moments: Moments, x: Array) -> Array:
    xp = namespace(x)
    normal: Array = xp.clip((x - moments.mean) / xp.sqrt(moments.variance + EPSILON), -CLIP, CLIP)
    return normal


def seen(moments: Moments | None, observation: Any) -> Array:
    """An observation as the network sees it."""
    return observation if moments is None else normalise(moments, observation)


def scale(moments: Moments, x: Array) -> Array:
    """Divided by the deviation, not centred: a reward's sign stays."""
    return jnp.clip(x / jnp.sqrt(moments.variance + EPSILON), -CLIP, CLIP)


def standardised(moments: Moments, x: Array) -> Array:
    """Mean 0 and deviation 1, as PPO has its advantages; of a single one, itself."""
    return jnp.where(moments.weight > 1, (x - moments.mean) / (jnp.sqrt(moments.variance) + EPSILON), x)
