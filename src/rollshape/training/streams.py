"""Randomness by named streams: changing what one of them is used for does not shift the others.

A key is a function of (seed, stream, index), so nothing random has to be carried or saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.training.prng import fast_keys

Stream = Literal["init", "env", "policy", "shuffle", "eval", "monitor", "probe"]
_INDEX: dict[Stream, int] = {
    "init": 0, "env": 1, "policy": 2, "shuffle": 3, "eval": 4, "monitor": 5, "probe": 6
}  # fmt: skip
NO_STEP = 2**32 - 1  # more steps than an episode has: what is folded in here is no key of a step


def stream_key(seed: Array | int, stream: Stream, index: Array | int = 0) -> Array:
    """The key of a stream at an index, such as the number of the update."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), _INDEX[stream]), index)


def stream_keys(seed: Array | int, streams: Sequence[Stream], first: Array | int, count: int) -> Array:
    """The keys of several streams at `count` consecutive indices, [streams, count]."""
    names, indices = jnp.array([_INDEX[stream] for stream in streams]), first + jnp.arange(count)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(fast_keys(jax.random.key(seed)), names)
    return jax.vmap(lambda key: jax.vmap(jax.random.fold_in, (None, 0))(key, indices))(keys)


def group_key(key: Array, group: int) -> Array:
    """Return the key of a group of environments, which folds in its steps; the first group uses the key itself."""
    return jax.random.fold_in(jax.random.fold_in(key, NO_STEP), group) if group else key
