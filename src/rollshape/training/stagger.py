"""Staggering resets: environments that all start together show one phase of the episode at a time."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.envs.functional import Episode, FunctionalEnv, step_and_reset
from rollshape.envs.spaces import Continuous, Discrete


def stagger_episodes(mode: str, env: FunctionalEnv, episodes: Episode, key: Array) -> Episode:
    """Return fresh episodes [N] at staggered phases.

    `counter` sets the step counters at random (cheap; first episodes are cut short). `burn-in` steps each environment
    a random number of steps with random actions (real states).
    """
    if mode == "none":
        return episodes
    limit = env.horizon
    steps = jax.random.randint(key, episodes.steps.shape, 0, limit)
    if mode == "counter":
        return episodes._replace(steps=steps)

    def burn(i: Array, state: Episode) -> Episode:
        move, choose = jax.random.split(jax.random.fold_in(key, i + 1))
        keys = jax.random.split(move, steps.shape[0])
        following, _ = jax.vmap(step_and_reset, (None, 0, 0, 0))(
            env, keys, state, _random_actions(env, choose, steps.shape[0])
        )
        is_running = i < steps
        mixed: Episode = jax.tree.map(
            lambda new, old: jnp.where(is_running.reshape(-1, *[1] * (new.ndim - 1)), new, old), following, state
        )
        return mixed

    staggered: Episode = jax.lax.fori_loop(0, limit, burn, episodes)
    return staggered


def _random_actions(env: FunctionalEnv, key: Array, count: int) -> Array:
    action = env.action
    if isinstance(action, Discrete):
        return jax.random.randint(key, (count,), 0, action.n)
    if isinstance(action, Continuous):
        low, high = max(action.low, -1e3), min(action.high, 1e3)
        return jax.random.uniform(key, (count, action.dim), minval=low, maxval=high)
    columns = [jax.random.randint(jax.random.fold_in(key, i), (count,), 0, n) for i, n in enumerate(action.choices)]
    return jnp.stack(columns, axis=-1)
