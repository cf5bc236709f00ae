"""Gradients of steps for any architecture, by vmap(grad): more expensive than traces, but a loss is all it needs.

`loss(parameters, step)` is the loss of one step, unbatched; `steps` is a pytree of arrays [N, T, …].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

Loss = Callable[[Any, Any], Array]


def step_gradients(loss: Loss, parameters: Any, steps: Any) -> Array:
    """Return the gradients of the steps of one environment, [T, …] → [T, P]."""
    return jax.vmap(lambda step: ravel_pytree(jax.grad(loss)(parameters, step))[0])(steps)


def gram_blocks(loss: Loss, parameters: Any, steps: Any) -> Array:
    """Return ⟨g_t, g_s⟩ within every environment, [N, T, …] → [N, T, T]; gradients of one are held at a time."""

    def block(steps: Any) -> Array:
        gradients = step_gradients(loss, parameters, steps)
        return jnp.matmul(gradients, gradients.T, precision=jax.lax.Precision.HIGHEST)

    blocks: Array = jax.lax.map(block, steps)
    return blocks


def rows(loss: Loss, parameters: Any, steps: Any) -> Array:
    """Return the mean gradient of every environment's window, [N, T, …] → [N, P], without gradients of steps."""

    def window(parameters: Any, steps: Any) -> Array:
        return jax.vmap(lambda step: loss(parameters, step))(steps).mean()

    return jax.vmap(lambda steps: ravel_pytree(jax.grad(window)(parameters, steps))[0])(steps)
