"""Functions that take NumPy's arrays as well as JAX's."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np


def namespace(x: Any) -> Any:
    """The module that computes with x: NumPy for its arrays, else jax.numpy.

    For a few dozen observations NumPy has chosen the actions before a compiled program is even called (30 µs against
    150 µs for 64 of HalfCheetah's).
    """
    return np if isinstance(x, np.ndarray) else jnp
