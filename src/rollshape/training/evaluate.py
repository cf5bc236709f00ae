"""Scoring a policy on fresh, full-length episodes of its own random stream."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.distributions import Policy, sample
from rollshape.agents.networks import ActorCritic
from rollshape.envs.functional import Episode, FunctionalEnv, start, step_episode
from rollshape.training.normaliser import Moments, seen


class Score(NamedTuple):
    """Mean return over fresh episodes, and half the width of its 95 % interval."""

    mean: float
    half_width: float
    episodes: int
    length: float


def evaluate(
    env: FunctionalEnv,
    policy: Policy,
    model: ActorCritic,
    moments: Moments | None,
    key: Array,
    episodes: int = 128,
) -> Score:
    """Each of so many environments plays its first episode to the end; the policy acts as it was trained, by chance."""
    return score_of(*_play(env, policy, episodes, model, moments, key))


def score_of(returns: Any, lengths: Any) -> Score:
    """The score of finished episodes."""
    totals = np.asarray(returns, np.float64)
    deviation = totals.std(ddof=1) if totals.size > 1 else 0.0
    return Score(float(totals.mean()), float(1.96 * deviation / totals.size**0.5), totals.size, float(np.mean(lengths)))


@partial(jax.jit, static_argnums=(0, 1, 2))
def _play(
    env: FunctionalEnv, policy: Policy, episodes: int, model: ActorCritic, moments: Moments | None, key: Array
) -> tuple[Array, Array]:
    """(returns, lengths) of the first episode of each environment."""
    first, rest = jax.random.split(key)
    limit, outputs = env.horizon, model.acting()

    def going_on(carry: tuple[Array, Episode, Array, Array, Array]) -> Array:
        step, _, done, _, _ = carry
        return (step < limit) & ~done.all()

    def play(carry: tuple[Array, Episode, Array, Array, Array]) -> tuple[Array, Episode, Array, Array, Array]:
        step, running, done, returns, lengths = carry
        act, move = jax.random.split(jax.random.fold_in(rest, step))
        action = env.clip_action(sample(policy, act, outputs(seen(moments, running.observation))))
        keys = jax.vmap(jax.random.split)(jax.random.split(move, episodes))[:, 0]  # as in step_and_reset
        running, outcome = jax.vmap(step_episode, (None, 0, 0, 0))(env, keys, running, action)
        returns = jnp.where(done, returns, outcome.episode_return)
        lengths = jnp.where(done, lengths, outcome.episode_length)
        return step + 1, running, done | outcome.terminated | outcome.truncated, returns, lengths

    fresh = jax.vmap(partial(start, env))(jax.random.split(first, episodes))
    begin = (
        jnp.zeros((), jnp.int32),
        fresh,
        jnp.zeros(episodes, bool),
        jnp.zeros(episodes),
        jnp.zeros(episodes, jnp.int32),
    )
    _, _, _, returns, lengths = jax.lax.while_loop(going_on, play, begin)
    return returns, lengths
