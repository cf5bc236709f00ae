"""Randomness by named streams: changing what one of them is used for does not shift the others.

A key is a function of (seed, stream, index), so nothing random has to be carried or saved.
"""

from __future__ import annotations

from typing import Literal

import jax
from jax import Array

Stream = Literal["init", "env", "policy", "shuffle", "eval", "probe"]
_INDEX: dict[Stream, int] = {"init": 0, "env": 1, "policy": 2, "shuffle": 3, "eval": 4, "probe": 5}


def stream_key(seed: Array | int, stream: Stream, index: Array | int = 0) -> Array:
    """The key of a stream at an index, such as the number of the update."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), _INDEX[stream]), index)
