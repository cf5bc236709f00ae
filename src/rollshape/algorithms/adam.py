"""Adam (Kingma and Ba 2015) with one division and one square root per parameter.

On a CPU they take longer than the rest of a step, and optax divides four times: by both bias corrections, by the norm
of a clipped gradient and by √v̂ + ε. Here the corrections and the clip are factors. With cₖ = 1 − βₖᵗ

    m ← β₁·m + (1 − β₁)·g,   v ← β₂·v + (1 − β₂)·g²,   θ ← θ − η·(√c₂ / c₁)·m / (√v + √c₂·ε),

which is θ − η·m̂/(√v̂ + ε).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class AdamState(NamedTuple):
    """What Adam carries from one step to the next."""

    steps: Array
    mean: Any  # m and v: moving averages of the gradient and of its square, shaped as the parameters
    square: Any


@dataclass(frozen=True)
class Adam:
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def init(self, parameters: Any) -> AdamState:
        return AdamState(jnp.zeros((), jnp.int32), *(jax.tree.map(jnp.zeros_like, parameters) for _ in range(2)))

    def step(
        self, parameters: Any, state: AdamState, gradient: Any, learning_rate: Array | float, scale: Array | float = 1.0
    ) -> tuple[Any, AdamState]:
        """Return parameters and state after one step with `scale` times the gradient."""
        steps = state.steps + 1
        first, second = (-jnp.expm1(steps * _log(beta)) for beta in self.betas)  # 1 − βᵗ, without the cancellation
        root = jnp.sqrt(second)
        rate, eps = learning_rate * root / first, self.eps * root

        def average(beta: float, old: Any, new: Any) -> Any:
            return jax.tree.map(lambda m, g: beta * m + (1.0 - beta) * g, old, new)

        gradient = jax.tree.map(lambda g: scale * g, gradient)
        mean = average(self.betas[0], state.mean, gradient)
        square = average(self.betas[1], state.square, jax.tree.map(jnp.square, gradient))
        updated = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + eps), parameters, mean, square)
        return updated, AdamState(steps, mean, square)


def _log(beta: float) -> float:
    return math.log(beta) if beta > 0 else -math.inf


def clip_factor(norm: Array, largest: float | None) -> Array | float:
    """Return the factor that reduces a gradient's norm to at most `largest`."""
    return 1.0 if largest is None else jnp.minimum(1.0, largest / norm)
