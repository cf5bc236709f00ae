"""Running mean and variance of observations, rewards and advantages (Chan, Golub and LeVeque 1983)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from rollshape.agents.arrays import namespace

Sum = Callable[[Array], Array]  # adds a shard's partial sums over all shards
CLIP = 10.0
EPSILON = 1e-8


class Moments(NamedTuple):
    """Mean, variance and number of samples, elementwise."""

    mean: Array
    variance: Array
    weight: Array


def empty_moments(shape: tuple[int, ...]) -> Moments:
    return Moments(jnp.zeros(shape), jnp.ones(shape), jnp.full(shape, 1e-4))


def compute_moments(total: Sum, x: Array, axes: tuple[int, ...], valid: Array | None = None) -> Moments:
    """Compute the moments of x over the given axes and over all shards.

    Args:
        total: sum over the shards.
        x: this shard's samples.
        axes: axes to reduce.
        valid: mask with the leading axes of x; masked samples do not count.
    """

    def mask(x: Array) -> Array:
        return x if valid is None else x * valid.reshape(*valid.shape, *[1] * (x.ndim - valid.ndim))

    both = jnp.stack([mask(jnp.ones_like(x)), mask(x)])  # one sum over the shards for both
    weight, mean = total(both.sum(tuple(axis + 1 for axis in axes), keepdims=True))
    most = jnp.maximum(weight, 1.0)
    mean = mean / most
    variance = total(mask((x - mean) ** 2).sum(axes, keepdims=True)) / most
    return Moments(mean.squeeze(axes), variance.squeeze(axes), weight.squeeze(axes))


def merge_moments(a: Moments, b: Moments) -> Moments:
    """Return the moments of two sets of samples together."""
    total = a.weight + b.weight
    most = jnp.maximum(total, 1e-8)
    shift = b.mean - a.mean
    squares = a.variance * a.weight + b.variance * b.weight + shift**2 * a.weight * b.weight / most
    return Moments(a.mean + shift * b.weight / most, squares / most, total)


def normalize(moments: Moments, x: Array) -> Array:
    """Return (x − mean)/std, clipped to ±10."""
    xp = namespace(x)
    normal: Array = xp.clip((x - moments.mean) / xp.sqrt(moments.variance + EPSILON), -CLIP, CLIP)
    return normal


def normalize_obs(moments: Moments | None, observation: Any) -> Array:
    """Return the observation as the network reads it; without moments, as it is."""
    return observation if moments is None else normalize(moments, observation)


def scale_reward(moments: Moments, reward: Array) -> Array:
    """Return reward/std, clipped to ±10. It is not centered: a reward keeps its sign."""
    return jnp.clip(reward / jnp.sqrt(moments.variance + EPSILON), -CLIP, CLIP)


def standardize(moments: Moments, x: Array) -> Array:
    """Return x with mean 0 and standard deviation 1, as PPO uses its advantages; a single sample stays as it is."""
    return jnp.where(moments.weight > 1, (x - moments.mean) / (jnp.sqrt(moments.variance) + EPSILON), x)
