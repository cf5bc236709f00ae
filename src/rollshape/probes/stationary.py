"""States of a policy's own distribution, from environments that nothing but the policy has moved."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.distributions import ActionDistribution, sample
from rollshape.agents.networks import ActorCritic
from rollshape.agents.normalizer import Moments, normalize_obs
from rollshape.envs.functional import Episode, FunctionalEnv, start, step_and_reset

BURN_IN = (2, 3)  # episode lengths: at least, and less than


def moved(
    env: FunctionalEnv,
    policy: ActionDistribution,
    model: ActorCritic,
    moments: Moments | None,
    episodes: Episode,
    key: Array,
) -> Episode:
    """One step of all environments under the policy."""
    act, move = jax.random.split(key)
    action = env.clip_action(sample(policy, act, model.actor_fn()(normalize_obs(moments, episodes.observation))))
    keys = jax.random.split(move, episodes.steps.shape[0])
    following: Episode = jax.vmap(step_and_reset, (None, 0, 0, 0))(env, keys, episodes, action)[0]
    return following


@partial(jax.jit, static_argnums=(0, 1, 2))
def stationary(
    env: FunctionalEnv, policy: ActionDistribution, num_envs: int, model: ActorCritic, moments: Moments | None, key: Array,
    burn_in: tuple[int, int],
) -> tuple[Episode, Array]:  # fmt: skip
    """Episodes [N] of fresh environments, each after a number of steps of its own, from `burn_in[0]` to below
    `burn_in[1]`; and the steps of the longest episode that they played."""
    fresh, when, rest = jax.random.split(key, 3)
    least, most = burn_in
    counts = jax.random.randint(when, (num_envs,), least, most)

    def step(i: Array, carry: tuple[Episode, Array]) -> tuple[Episode, Array]:
        episodes, longest = carry
        following = moved(env, policy, model, moments, episodes, jax.random.fold_in(rest, i))
        going = i < counts
        mixed: Episode = jax.tree.map(
            lambda new, old: jnp.where(going.reshape(-1, *[1] * (new.ndim - 1)), new, old), following, episodes
        )
        return mixed, jnp.maximum(longest, jnp.where(going, episodes.steps + 1, 0).max())

    begun = jax.vmap(partial(start, env))(jax.random.split(fresh, num_envs))
    burnt: tuple[Episode, Array] = jax.lax.fori_loop(0, most, step, (begun, jnp.zeros((), jnp.int32)))
    return burnt


def horizons(env: FunctionalEnv) -> tuple[int, int]:
    """A `burn_in` of two to three of the environment's horizons."""
    return BURN_IN[0] * env.horizon, BURN_IN[1] * env.horizon
