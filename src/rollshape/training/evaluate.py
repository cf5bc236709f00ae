"""Scoring a policy on fresh, full-length episodes of the eval stream."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.policy import Policy
from rollshape.envs.functional import Episode, FunctionalEnv, start, step_episode


class Score(NamedTuple):
    """Mean return over fresh episodes, and half the width of its 95 % interval."""

    mean: float
    half_width: float
    episodes: int
    length: float


def evaluate(env: FunctionalEnv, policy: Policy, key: Array, episodes: int = 128) -> Score:
    """Let each of `episodes` environments play its first episode to the end; actions are sampled, as in training."""
    return score_of(*_play(env, episodes, policy, key))


def score_of(returns: Any, lengths: Any) -> Score:
    """Return the score of finished episodes."""
    totals = np.asarray(returns, np.float64)
    deviation = totals.std(ddof=1) if totals.size > 1 else 0.0
    return Score(float(totals.mean()), float(1.96 * deviation / totals.size**0.5), totals.size, float(np.mean(lengths)))


@partial(jax.jit, static_argnums=(0, 1))
def _play(env: FunctionalEnv, episodes: int, policy: Policy, key: Array) -> tuple[Array, Array]:
    """Return (returns, lengths) of the first episode of each environment."""
    first, rest = jax.random.split(key)

    def going_on(carry: tuple[Array, Episode, Array, Array, Array]) -> Array:
        step, _, done, _, _ = carry
        return (step < env.horizon) & ~done.all()

    def play(carry: tuple[Array, Episode, Array, Array, Array]) -> tuple[Array, Episode, Array, Array, Array]:
        step, running, done, returns, lengths = carry
        act, move = jax.random.split(jax.random.fold_in(rest, step))
        action = env.clip_action(policy.sample(act, running.observation))
        keys = jax.vmap(jax.random.split)(jax.random.split(move, episodes))[:, 0]  # as in `advance`, without its resets
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
