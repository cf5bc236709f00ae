"""States of a policy's own distribution, from environments that nothing but the policy has moved."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.distributions import Policy, sample
from rollshape.agents.networks import ActorCritic
from rollshape.envs.functional import Episode, FunctionalEnv, advance, start
from rollshape.training.normaliser import Moments, normalise

BURN_IN = (2, 3)  # horizons: at least, and less than


def seen(moments: Moments | None, observation: Array) -> Array:
    """As the network sees it."""
    return observation if moments is None else normalise(moments, observation)


@partial(jax.jit, static_argnums=(0, 1, 2))
def stationary(
    env: FunctionalEnv, policy: Policy, num_envs: int, model: ActorCritic, moments: Moments | None, key: Array
) -> Episode:
    """Episodes [N] of fresh environments, each after 2 to 3 horizons, a number of steps of its own."""
    fresh, when, rest = jax.random.split(key, 3)
    least, most = (lengths * env.horizon for lengths in BURN_IN)
    counts = jax.random.randint(when, (num_envs,), least, most)

    def step(i: Array, episodes: Episode) -> Episode:
        act, move = jax.random.split(jax.random.fold_in(rest, i))
        action = env.bounded(sample(policy, act, model(seen(moments, episodes.observation))[0]))
        following, _ = jax.vmap(advance, (None, 0, 0, 0))(env, jax.random.split(move, num_envs), episodes, action)
        going = i < counts
        mixed: Episode = jax.tree.map(
            lambda new, old: jnp.where(going.reshape(-1, *[1] * (new.ndim - 1)), new, old), following, episodes
        )
        return mixed

    burnt: Episode = jax.lax.fori_loop(0, most, step, jax.vmap(partial(start, env))(jax.random.split(fresh, num_envs)))
    return burnt
