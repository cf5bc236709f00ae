"""Advantages and returns along time, for one environment; the caller adds vmap over environments.

Arrays are [T]. `next_value[t]` is V of where step t really led: the value of the following observation, or V(final
observation) where a time limit cut the episode. At `terminated` it does not count, at `ended` the trace is cut.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

UNROLL = 8  # steps of the loop in one: its turns cost more than its arithmetic


def next_values(values: Array, last_value: Array, truncated: Array, final_values: Array) -> Array:
    """Return V after each step: V(s_{t+1}), or V of the final observation where the episode was truncated."""
    return jnp.where(truncated, final_values, jnp.append(values[1:], last_value))


def gae(
    rewards: Array, values: Array, next_value: Array, terminated: Array, ended: Array, gamma: float, lam: float | Array
) -> Array:
    """Compute generalized advantage estimates (Schulman et al. 2016), [T] → [T].

    δ_t = r_t + γ·(1 − terminated_t)·V_{t+1} − V_t;  A_t = δ_t + γλ·(1 − ended_t)·A_{t+1}.
    """
    delta = rewards + gamma * jnp.where(terminated, 0.0, next_value) - values
    decay = gamma * lam * (1.0 - ended)

    def backwards(following: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        advantage = step[0] + step[1] * following
        return advantage, advantage

    return jax.lax.scan(backwards, jnp.zeros(()), (delta, decay), reverse=True, unroll=UNROLL)[1]


def rewards_to_go(rewards: Array, next_value: Array, terminated: Array, ended: Array, gamma: float) -> Array:
    """Compute the return to go of each step: G_t = r_t + γ·G_{t+1} within the episode.

    Where the episode was truncated, and at the window's edge, the rest is estimated by `next_value` (zeros: cut off).
    """
    bootstrap = jnp.where(terminated, 0.0, next_value)
    last = ended.at[-1].set(True)

    def backwards(following: Array, step: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        reward, rest, ends = step
        total = reward + gamma * jnp.where(ends, rest, following)
        return total, total

    return jax.lax.scan(backwards, jnp.zeros(()), (rewards, bootstrap, last), reverse=True, unroll=UNROLL)[1]


def episode_returns(to_go: Array, ended: Array) -> Array:
    """Return at each step the return of its whole episode, the return to go of the episode's first step in the window.

    R_t = G_t where an episode begins (at 0 and after an end), else R_{t−1}.
    """
    begins = jnp.concatenate([jnp.ones(1, bool), ended[:-1]])

    def forwards(current: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        total = jnp.where(step[1], step[0], current)
        return total, total

    return jax.lax.scan(forwards, jnp.zeros(()), (to_go, begins), unroll=UNROLL)[1]
