"""Running mean and variance (Chan, Golub and LeVeque 1983), for observations and for rewards."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

CLIP = 10.0
EPSILON = 1e-8


class Moments(NamedTuple):
    """Mean, variance and number of everything seen."""

    mean: Array
    variance: Array
    weight: Array  # number of samples


def no_moments(shape: tuple[int, ...]) -> Moments:
    return Moments(jnp.zeros(shape), jnp.ones(shape), jnp.asarray(1e-4))


def with_batch(moments: Moments, batch: Array) -> Moments:
    """The moments after a batch [..., *shape] has been seen, whatever its leading axes."""
    axes = tuple(range(batch.ndim - moments.mean.ndim))
    count = batch.size // max(1, moments.mean.size)
    mean, variance = batch.mean(axes), batch.var(axes)
    total = moments.weight + count
    shift = mean - moments.mean
    spread = moments.variance * moments.weight + variance * count + shift**2 * moments.weight * count / total
    return Moments(moments.mean + shift * count / total, spread / total, total)


def normalise(moments: Moments, x: Array) -> Array:
    return jnp.clip((x - moments.mean) / jnp.sqrt(moments.variance + EPSILON), -CLIP, CLIP)


def scale(moments: Moments, x: Array) -> Array:
    """Divided by the deviation, not centred: a reward's sign stays."""
    return jnp.clip(x / jnp.sqrt(moments.variance + EPSILON), -CLIP, CLIP)
