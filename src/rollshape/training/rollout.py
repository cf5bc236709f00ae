"""Collecting a rollout in functional environments: N environments × T steps, time-major [T, N, …].

At small N the loop over steps takes most of the time, and its time is the number of its kernels: what can be computed
for all steps at once (values, log probabilities, lengths, bootstraps of truncated episodes) is computed after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.normalizer import Moments, normalize_obs
from rollshape.agents.policy import Act, Policy
from rollshape.algorithms.actor_critic import complete_rollout
from rollshape.algorithms.base import Algorithm, Rollout, State
from rollshape.envs.functional import Episode, FunctionalEnv, Transition, step_and_reset

Keys = tuple[Array, Array]  # of the policy's and the environments' streams


def collect(
    env: FunctionalEnv, algorithm: Algorithm, state: State, moments: Moments | None, episodes: Episode, keys: Keys
) -> tuple[Episode, Rollout]:
    """Act for T steps in the environments of a shard, as the algorithm does while it trains."""
    noise = algorithm.distribution.draw_noise(keys[0], (algorithm.plan.num_steps, episodes.steps.shape[0]))
    act = algorithm.act_fn(state)
    if algorithm.uses_replay:
        return _collect(env, act, moments, episodes, noise, keys[1], _keep_final_observation)[:2]
    return _complete(env, algorithm.policy(state, moments), *_collect(env, act, moments, episodes, noise, keys[1]))


def collect_with_policy(
    env: FunctionalEnv, policy: Policy, episodes: Episode, keys: Keys, num_steps: int
) -> tuple[Episode, Rollout]:
    """Act for T steps with an actor-critic policy, outside of training."""
    noise = policy.distribution.draw_noise(keys[0], (num_steps, episodes.steps.shape[0]))
    return _complete(env, policy, *_collect(env, policy.act_fn(), policy.moments, episodes, noise, keys[1]))


class _Row(NamedTuple):
    """What the loop stores of each step."""

    observation: Array  # raw
    action: Array
    reward: Array
    terminated: Array
    steps: Array
    episode_return: Array
    extras: dict[str, Array]


def _collect(
    env: FunctionalEnv, act: Act, moments: Moments | None, episodes: Episode, noise: Array, key: Array,
    after_step: Callable[[Transition], dict[str, Array]] | None = None,
) -> tuple[Episode, Rollout, Array | None]:  # fmt: skip
    """Step all environments with actions for `noise` [T, N, …].

    Returns:
        The running episodes, the rollout, and the final observations of truncated episodes, [blocks, N, …]. Truncations
        of an environment are at least max_steps apart, so there is at most one in a block of that many steps.
    """
    num_steps, limit = noise.shape[0], env.max_steps
    blocks = 0 if limit is None or after_step is not None else -(-num_steps // limit)

    def step(carry: tuple[Episode, Array], chance: tuple[Array, Array, Array]) -> tuple[tuple[Episode, Array], _Row]:
        episodes, finals = carry
        noise, keys, block = chance
        action, extras = act(normalize_obs(moments, episodes.observation), noise)
        following, outcome = jax.vmap(step_and_reset, (None, 0, 0, 0))(env, keys, episodes, env.clip_action(action))
        if blocks:
            truncated = outcome.truncated.reshape(-1, *[1] * (finals.ndim - 2))
            kept = jnp.where(truncated, outcome.final_observation, finals[block])
            finals = kept[None] if blocks == 1 else finals.at[block].set(kept)
        if after_step is not None:
            extras = extras | after_step(outcome)
        row = _Row(
            episodes.observation, action, outcome.reward, outcome.terminated, episodes.steps, outcome.episode_return,
            extras,
        )  # fmt: skip
        return (following, finals), row

    # Random numbers are drawn in bulk: the loop over steps is where small operations add up.
    keys = jax.random.split(key, noise.shape[:2])
    block = jnp.arange(num_steps) // (limit or 1) if blocks > 1 else jnp.zeros(num_steps, jnp.int32)
    finals = jnp.zeros((blocks, *episodes.observation.shape), episodes.observation.dtype)
    (episodes, finals), rows = jax.lax.scan(step, (episodes, finals), (noise, keys, block))
    lengths = rows.steps + 1
    expired = lengths >= limit if limit is not None else jnp.zeros_like(rows.terminated)
    columns: dict[str, Any] = {
        "observation": normalize_obs(moments, rows.observation),
        "action": rows.action,
        "reward": rows.reward,
        "terminated": rows.terminated,
        "truncated": expired & ~rows.terminated,
        "steps": rows.steps,
        "episode_return": rows.episode_return,
        "episode_length": lengths,
        "raw_observation": None if moments is None else rows.observation,
    }
    return episodes, Rollout(**(columns | rows.extras)), finals if blocks else None


def _complete(
    env: FunctionalEnv, policy: Policy, episodes: Episode, rollout: Rollout, finals: Array | None
) -> tuple[Episode, Rollout]:
    """Evaluate the network on the whole rollout, on the final observations and on the last ones."""
    last = policy.normalize(episodes.observation)
    if finals is None:
        rollout = rollout._replace(final_value=jnp.zeros_like(rollout.reward))
        return episodes, complete_rollout(policy, rollout, last)
    values = policy.network.value(jnp.concatenate([policy.normalize(finals), last[None]]))  # one evaluation for both
    by_step = jnp.repeat(values[:-1], env.horizon, axis=0)[: rollout.reward.shape[0]]
    rollout = rollout._replace(final_value=jnp.where(rollout.truncated, by_step, 0.0), last_value=values[-1])
    return episodes, complete_rollout(policy, rollout, last)


def _keep_final_observation(outcome: Transition) -> dict[str, Any]:
    """What a replay buffer stores: where the step led, and its true reward."""
    return {"final_observation": outcome.final_observation, "reward": outcome.true_reward}
