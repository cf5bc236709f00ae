"""Collecting a rollout in functional environments: N environments × T steps, time-major [T, N, …]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.normalizer import Moments, normalize_obs
from rollshape.agents.policy import Policy
from rollshape.algorithms.base import Algorithm, Rollout, State
from rollshape.envs.functional import Episode, FunctionalEnv, Transition, step_and_reset

Act = Callable[[Array, Array], tuple[Array, dict[str, Array]]]  # (observation, noise) → (action, extras)
Keys = tuple[Array, Array]  # of the policy's and the environments' streams


def collect(
    env: FunctionalEnv, algorithm: Algorithm, state: State, moments: Moments | None, episodes: Episode, keys: Keys
) -> tuple[Episode, Rollout]:
    """Act for T steps in the environments of a shard, as the algorithm does while it trains."""
    policy = algorithm.policy(state, moments)
    noise = algorithm.distribution.draw_noise(keys[0], (algorithm.plan.num_steps, episodes.steps.shape[0]))

    def act(observation: Array, noise: Array) -> tuple[Array, dict[str, Array]]:
        return algorithm.act(state, observation, noise)

    if algorithm.uses_replay:
        return _collect(env, act, moments, episodes, noise, keys[1], _keep_final_observation)
    return _with_last_value(
        policy, *_collect(env, act, moments, episodes, noise, keys[1], lambda outcome: _final_values(policy, outcome))
    )


def collect_with_policy(
    env: FunctionalEnv, policy: Policy, episodes: Episode, keys: Keys, num_steps: int
) -> tuple[Episode, Rollout]:
    """Act for T steps with an actor-critic policy, outside of training."""
    distribution = policy.distribution

    def act(observation: Array, noise: Array) -> tuple[Array, dict[str, Array]]:
        outputs, value = policy.network(observation)
        action = distribution.select(outputs, noise)
        return action, {"log_prob": distribution.log_prob(outputs, action), "value": value}

    noise = distribution.draw_noise(keys[0], (num_steps, episodes.steps.shape[0]))
    return _with_last_value(
        policy,
        *_collect(env, act, policy.moments, episodes, noise, keys[1], lambda outcome: _final_values(policy, outcome)),
    )


def _collect(
    env: FunctionalEnv, act: Act, moments: Moments | None, episodes: Episode, noise: Array, key: Array,
    after_step: Callable[[Transition], dict[str, Array]],
) -> tuple[Episode, Rollout]:  # fmt: skip
    """Step all environments with actions for `noise` [T, N, …]."""

    def step(episodes: Episode, chance: tuple[Array, Array]) -> tuple[Episode, Rollout]:
        observation = normalize_obs(moments, episodes.observation)
        action, extras = act(observation, chance[0])
        following, outcome = jax.vmap(step_and_reset, (None, 0, 0, 0))(
            env, chance[1], episodes, env.clip_action(action)
        )
        row = Rollout(
            observation=observation,
            action=action,
            reward=outcome.reward,
            terminated=outcome.terminated,
            truncated=outcome.truncated,
            steps=episodes.steps,
            episode_return=outcome.episode_return,
            episode_length=outcome.episode_length,
            raw_observation=None if moments is None else episodes.observation,
            **extras,
        )
        return following, row._replace(**after_step(outcome))

    # Random numbers are drawn in bulk: the loop over steps is where small operations add up.
    chance = (noise, jax.random.split(key, noise.shape[:2]))
    collected: tuple[Episode, Rollout] = jax.lax.scan(step, episodes, chance)
    return collected


def _final_values(policy: Policy, outcome: Transition) -> dict[str, Array]:
    """Values of the final observations, computed only in the rare step in which some episode is truncated."""
    values = jax.lax.cond(
        outcome.truncated.any(),
        lambda: policy.value(outcome.final_observation),
        lambda: jnp.zeros_like(outcome.reward),
    )
    return {"final_value": jnp.where(outcome.truncated, values, 0.0)}


def _keep_final_observation(outcome: Transition) -> dict[str, Any]:
    """What a replay buffer stores: where the step led, and its true reward."""
    return {"final_observation": outcome.final_observation, "reward": outcome.true_reward}


def _with_last_value(policy: Policy, episodes: Episode, rollout: Rollout) -> tuple[Episode, Rollout]:
    return episodes, rollout._replace(last_value=policy.value(episodes.observation))
