"""Random keys whose hash is one kernel: the numbers of JAX's default generator, Threefry-2x32 with 20 rounds.

On a CPU, JAX computes the rounds in a loop of some 80 small kernels, whatever the size. Unrolled, as here, they fuse
with what uses the bits: faster in a program that runs for long, such as training, but it takes longer to compile.
(Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3")
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.random import define_prng_impl

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
GROUPS = 5  # of four rounds each


def threefry(key: Array, high: Array, low: Array) -> tuple[Array, Array]:
    """Hash the 64-bit counters (high, low), any shape of uint32, by a key [2]."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(PARITY))
    x, y = high + keys[0], low + keys[1]
    for group in range(GROUPS):
        for rotation in ROTATIONS[group % 2]:
            x = x + y
            y = x ^ ((y << jnp.uint32(rotation)) | (y >> jnp.uint32(32 - rotation)))
        x, y = x + keys[(group + 1) % 3], y + keys[(group + 2) % 3] + jnp.uint32(group + 1)
    return x, y


@jax.jit
def _seed(seed: Array) -> Array:
    return jnp.stack([jnp.zeros((), jnp.uint32), jnp.asarray(seed).astype(jnp.uint32)])


@partial(jax.jit, static_argnums=1)
def _split(key: Array, shape: tuple[int, ...]) -> Array:
    return jnp.stack(threefry(key, *_counters(shape)), axis=-1)


@partial(jax.jit, static_argnums=(1, 2))
def _random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    if bit_width > 32:
        raise NotImplementedError(f"{bit_width}-bit random numbers")
    high, low = threefry(key, *_counters(shape))
    bits: Array = (high ^ low).astype(f"uint{bit_width}")
    return bits


@jax.jit
def _fold_in(key: Array, data: Array) -> Array:
    return jnp.stack(threefry(key, jnp.zeros((), jnp.uint32), jnp.asarray(data).astype(jnp.uint32)))


def _counters(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the row-major positions in an array of this shape, as (high, low) words."""
    if math.prod(shape) >= 2**32:
        raise NotImplementedError(f"{math.prod(shape):,} random numbers from one key")
    low = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    return jnp.zeros_like(low), low


IMPLEMENTATION: Any = define_prng_impl(
    key_shape=(2,), seed=_seed, split=_split, random_bits=_random_bits, fold_in=_fold_in, name="rollshape", tag="roll"
)


def fast_keys(keys: Array) -> Array:
    """Return the same keys for this generator: functions of `jax.random` give the same numbers."""
    converted: Array = jax.random.wrap_key_data(jax.random.key_data(keys), impl=IMPLEMENTATION)
    return converted
