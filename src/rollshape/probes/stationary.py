"""States of the stationary distribution of a policy, from fresh environments in which only the policy has acted."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.policy import Policy
from rollshape.envs.functional import Episode, FunctionalEnv, start, step_and_reset
from rollshape.quick_jit import quick_jit

BURN_IN = (2, 3)  # in episode lengths: at least, and less than
GROUP_ENVS = 128  # environments that are collected side by side
MOST_GROUPS = 8  # with more environments, the groups are larger


def step_environments(env: FunctionalEnv, policy: Policy, episodes: Episode, key: Array) -> Episode:
    """Take one step of the policy in every environment."""
    action_key, env_key = jax.random.split(key)
    action = env.clip_action(policy.sample(action_key, episodes.observation))
    keys = jax.random.split(env_key, episodes.steps.shape[0])
    following: Episode = jax.vmap(step_and_reset, (None, 0, 0, 0))(env, keys, episodes, action)[0]
    return following


@partial(quick_jit, jit=eqx.filter_jit, is_long=True)
def stationary(env: FunctionalEnv, policy: Policy, num_envs: int, key: Array, burn_in: Array) -> tuple[Episode, Array]:
    """Return the episodes [N] of fresh environments after a burn-in, and the length of the longest episode played.

    Every environment takes its own random number of steps, at least `burn_in[0]` and less than `burn_in[1]`, so that
    episodes of equal length do not end at the same time.
    """
    reset_key, count_key, step_key = jax.random.split(key, 3)
    least, most = burn_in
    counts = jax.random.randint(count_key, (num_envs,), least, most)

    def step(i: Array, carry: tuple[Episode, Array]) -> tuple[Episode, Array]:
        episodes, longest = carry
        following = step_environments(env, policy, episodes, jax.random.fold_in(step_key, i))
        is_active = i < counts
        episodes_after: Episode = jax.tree.map(
            lambda new, old: jnp.where(is_active.reshape(-1, *[1] * (new.ndim - 1)), new, old), following, episodes
        )
        return episodes_after, jnp.maximum(longest, jnp.where(is_active, episodes.steps + 1, 0).max())

    fresh = jax.vmap(partial(start, env))(jax.random.split(reset_key, num_envs))
    result: tuple[Episode, Array] = jax.lax.fori_loop(0, most, step, (fresh, jnp.zeros((), jnp.int32)))
    return result


def stationary_states(env: FunctionalEnv, policy: Policy, num_envs: int, key: Array, length: int) -> Episode:
    """Return the episodes [N] of fresh environments after a burn-in for episodes of up to `length` steps.

    They burn in in groups, so that one program serves any number of environments up to 1,024.
    """
    size = min(num_envs, max(GROUP_ENVS, -(-num_envs // MOST_GROUPS)))
    keys = jax.random.split(key, -(-num_envs // size))
    groups = [jax.device_get(stationary(env, policy, size, k, burn_in_of(length))[0]) for k in keys]
    joined: Episode = jax.tree.map(lambda *parts: jax.device_put(np.concatenate(parts)[:num_envs]), *groups)
    return joined


def burn_in_of(length: int) -> Array:
    """Return the `burn_in` for episodes of up to `length` steps."""
    return jnp.asarray([BURN_IN[0] * length, BURN_IN[1] * length])
