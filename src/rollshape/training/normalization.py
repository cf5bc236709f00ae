"""Running normalization of observations and rewards, as SB3's VecNormalize does it: state of the run, not of PPO."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.normalizer import Moments, empty_moments, merge_moments, scale_reward
from rollshape.algorithms.base import Rollout
from rollshape.algorithms.parallel import BY_ENV, REPLICATED, Parallel


class Normalizer(NamedTuple):
    """Moments of observations and of discounted returns; None where they are not normalized."""

    observations: Moments | None
    rewards: Moments | None
    discounted: Array  # [N] running discounted return of each environment


# How it is laid out over the shards.
NORMALIZER_SPEC = Normalizer(observations=REPLICATED, rewards=REPLICATED, discounted=BY_ENV)


def new_normalizer(observation_shape: tuple[int, ...] | None, rewards: bool, num_envs: int) -> Normalizer:
    """Return an empty normalizer; `observation_shape` is None where observations are left as they are."""
    return Normalizer(
        None if observation_shape is None else empty_moments(observation_shape),
        empty_moments(()) if rewards else None,
        jnp.zeros(num_envs),
    )


def normalize_rewards(
    normalizer: Normalizer, rollout: Rollout, gamma: float, parallel: Parallel
) -> tuple[Normalizer, Rollout]:
    """Divide rewards by the standard deviation of the discounted return, this rollout's included."""
    if normalizer.rewards is None:
        return normalizer, rollout

    def accumulate(total: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        total = gamma * total + step[0]
        return jnp.where(step[1], 0.0, total), total

    ended = rollout.terminated | rollout.truncated
    discounted, totals = jax.lax.scan(accumulate, normalizer.discounted, (rollout.reward, ended))
    moments = merge_moments(normalizer.rewards, parallel.moments(totals, (0, 1), rollout.valid))
    scaled = rollout._replace(reward=scale_reward(moments, rollout.reward))
    return normalizer._replace(rewards=moments, discounted=discounted), scaled


def update_observations(normalizer: Normalizer, rollout: Rollout, parallel: Parallel) -> Normalizer:
    """Add the rollout's observations to the moments; they count from the next rollout on."""
    if normalizer.observations is None or rollout.raw_observation is None:
        return normalizer
    moments = parallel.moments(rollout.raw_observation, (0, 1), rollout.valid)
    return normalizer._replace(observations=merge_moments(normalizer.observations, moments))
