"""Activation functions by name, for JAX's arrays and for NumPy's (host environments act in NumPy)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import jax
import numpy as np
from jax import Array

from rollshape.agents.arrays import namespace

ActivationName = Literal["tanh", "relu", "elu", "gelu", "silu"]
Activation = Callable[[Any], Array]


def tanh(x: Any) -> Array:
    result: Array = namespace(x).tanh(x)
    return result


def relu(x: Any) -> Array:
    return np.maximum(x, 0) if isinstance(x, np.ndarray) else jax.nn.relu(x)  # type: ignore[return-value]


def elu(x: Any) -> Array:
    if isinstance(x, np.ndarray):
        return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))  # type: ignore[return-value]
    return jax.nn.elu(x)


def gelu(x: Any) -> Array:
    """The tanh approximation, which is JAX's default."""
    if isinstance(x, np.ndarray):
        cubic = x + np.float32(0.044715) * x**3
        result: Array = 0.5 * x * (1 + np.tanh(np.float32(np.sqrt(2 / np.pi)) * cubic))
        return result
    return jax.nn.gelu(x)


def silu(x: Any) -> Array:
    result: Array = x / (1 + np.exp(-x)) if isinstance(x, np.ndarray) else jax.nn.silu(x)
    return result


ACTIVATIONS: dict[ActivationName, Activation] = {"tanh": tanh, "relu": relu, "elu": elu, "gelu": gelu, "silu": silu}
assert set(ACTIVATIONS) == set(get_args(ActivationName))
