"""Collecting a rollout: N environments × T steps under the current policy, time-major [T, N, …]."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.distributions import Policy
from rollshape.agents.networks import ActorCritic
from rollshape.envs.functional import Episode, FunctionalEnv, Transition, step_and_reset
from rollshape.training.normaliser import Moments, seen


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
    env: FunctionalEnv,
    policy: Policy,
    model: ActorCritic,
    moments: Moments | None,
    episodes: Episode,
    keys: tuple[Array, Array],
    num_steps: int,
) -> tuple[Episode, Rollout]:
    """Act for T steps in the environments of a shard; keys are those of the policy's and the environments' streams."""
    num_envs = episodes.steps.shape[0]

    def step(episodes: Episode, chance: tuple[Array, Array]) -> tuple[Episode, tuple[Any, ...]]:
        observation = seen(moments, episodes.observation)
        outputs, value = model(observation)
        action = policy.choose(outputs, chance[0])
        following, outcome = jax.vmap(step_and_reset, (None, 0, 0, 0))(
            env, chance[1], episodes, env.clip_action(action)
        )
        final_value = _final_values(model, seen(moments, outcome.final_observation), outcome)
        raw = None if moments is None else episodes.observation
        row = (observation, raw, action, policy.log_prob(outputs, action), value, outcome, final_value,
               episodes.steps)  # fmt: skip
        return following, row

    # Random numbers are drawn in bulk: the loop over steps is where small operations add up.
    chance = (policy.noise(keys[0], (num_steps, num_envs)), jax.random.split(keys[1], (num_steps, num_envs)))
    episodes, (observation, raw, action, log_prob, value, outcome, final_value, steps) = jax.lax.scan(
        step, episodes, chance
    )
    last_value = model.value(seen(moments, episodes.observation))
    return episodes, Rollout(
        observation, raw, action, log_prob, value, outcome.reward, outcome.terminated, outcome.truncated, final_value,
        steps, outcome.episode_return, outcome.episode_length, last_value,
    )  # fmt: skip


def _final_values(model: ActorCritic, observation: Array, outcome: Transition) -> Array:
    """V of the final observations, computed only in the rare step in which some episode is truncated."""
    values = jax.lax.cond(
        outcome.truncated.any(),
        lambda: model.value(observation),
        lambda: jnp.zeros_like(outcome.reward),
    )
    return jnp.where(outcome.truncated, values, 0.0)
