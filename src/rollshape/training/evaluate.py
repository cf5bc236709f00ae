"""Scoring a policy on fresh, full-length episodes of the eval stream."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.policy import Policy
from rollshape.envs.functional import Episode, FunctionalEnv, start, step_episode
from rollshape.quick_jit import quick_jit

GROUP, MANY = 64, 1024  # environments that play side by side, each of them one episode
StopReason = Literal["episodes", "interval", "steps"]  # see `scoring.stop_reason`


class Score(NamedTuple):
    """Mean return over fresh episodes, and half the width of its 95 % interval."""

    mean: float
    half_width: float
    episodes: int
    length: float
    stopped_by: StopReason = "episodes"


class ScoreProgress(NamedTuple):
    """A score that is being measured: episodes played, episodes at most, and the score of all complete groups."""

    played: int
    episodes: int
    score: Score | None


OnScore = Callable[[ScoreProgress], None]


def score_policy(env: FunctionalEnv, policy: Policy, key: Array, episodes: int = 128) -> Score:
    """Play full episodes; actions are sampled, as in training.

    More than 64 are played in groups: the program that scores during training is also that of the final score.
    """
    size = min(episodes, GROUP) if episodes <= MANY else MANY
    keys = [key, *(jax.random.fold_in(key, i) for i in range(1, -(-episodes // size)))]
    groups = [_play(env, size, policy, key) for key in keys]
    returns, lengths = (np.concatenate(parts)[:episodes] for parts in zip(*groups, strict=True))
    return score_of(returns, lengths)


def score_of(returns: Any, lengths: Any) -> Score:
    """Return the score of finished episodes."""
    totals = np.asarray(returns, np.float64)
    deviation = totals.std(ddof=1) if totals.size > 1 else 0.0
    return Score(float(totals.mean()), float(1.96 * deviation / totals.size**0.5), totals.size, float(np.mean(lengths)))


@partial(quick_jit, is_long=True, static_argnums=(0, 1))
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
