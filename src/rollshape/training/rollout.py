"""Collecting a rollout: N environments × T steps under the current policy, time-major [T, N, …]."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.policy import Policy
from rollshape.envs.functional import Episode, FunctionalEnv, Transition, advance


class Rollout(NamedTuple):
    """What an update learns from, [T, N, …], and the value after the last step, [N]."""

    observation: Array  # as the network saw it
    raw_observation: Array | None  # as the environment gave it, where that is another
    action: Array
    log_prob: Array
    value: Array
    reward: Array
    terminated: Array
    truncated: Array
    final_value: Array  # V(final observation) where truncated, else 0
    steps: Array  # of the episode before the action: its phase
    episode_return: Array
    episode_length: Array
    last_value: Array
    valid: Array | None = None  # False where a host environment only reset: no transition; None: all are valid


def collect(
    env: FunctionalEnv, policy: Policy, episodes: Episode, keys: tuple[Array, Array], num_steps: int
) -> tuple[Episode, Rollout]:
    """Act for T steps in the environments of a shard; keys are those of the policy's and the environments' streams."""
    num_envs, distribution = episodes.steps.shape[0], policy.distribution

    def step(episodes: Episode, chance: tuple[Array, Array]) -> tuple[Episode, tuple[Any, ...]]:
        observation = policy.normalize(episodes.observation)
        outputs, value = policy.network(observation)
        action = distribution.select(outputs, chance[0])
        following, outcome = jax.vmap(advance, (None, 0, 0, 0))(env, chance[1], episodes, env.bounded(action))
        raw = None if policy.moments is None else episodes.observation
        row = (observation, raw, action, distribution.log_prob(outputs, action), value, outcome,
               _final_values(policy, outcome), episodes.steps)  # fmt: skip
        return following, row

    # Random numbers are drawn in bulk: the loop over steps is where small operations add up.
    chance = (distribution.draw_noise(keys[0], (num_steps, num_envs)), jax.random.split(keys[1], (num_steps, num_envs)))
    episodes, (observation, raw, action, log_prob, value, outcome, final_value, steps) = jax.lax.scan(
        step, episodes, chance
    )
    return episodes, Rollout(
        observation, raw, action, log_prob, value, outcome.reward, outcome.terminated, outcome.truncated, final_value,
        steps, outcome.episode_return, outcome.episode_length, policy.value(episodes.observation),
    )  # fmt: skip


def _final_values(policy: Policy, outcome: Transition) -> Array:
    """Values of the final observations, computed only in the rare step in which some episode is truncated."""
    values = jax.lax.cond(
        outcome.truncated.any(),
        lambda: policy.value(outcome.final_observation),
        lambda: jnp.zeros_like(outcome.reward),
    )
    return jnp.where(outcome.truncated, values, 0.0)
