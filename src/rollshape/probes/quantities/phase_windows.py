"""Rollouts of a run's T after a common reset or from other states, and their gradients, for `reset_phase`."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.normalizer import Moments, scale_reward
from rollshape.agents.policy import Policy
from rollshape.algorithms.base import Rollout
from rollshape.envs.functional import Episode, FunctionalEnv, start
from rollshape.gradients import gram
from rollshape.gradients.intervals import Floats
from rollshape.gradients.scores import policy_rows
from rollshape.probes.subject import Checkpoint, Estimator
from rollshape.quick_jit import quick_jit
from rollshape.training.driver import histogram_entropy, phase_histogram
from rollshape.training.rollout import collect_with_policy


class Window(NamedTuple):
    """A rollout of T steps, [N, T, …]."""

    observation: Array
    action: Array
    advantage: Array
    steps: Array  # of the episode before the action


def run_phase_counts(play: Any, checkpoint: Checkpoint, num_envs: int, key: Array) -> tuple[Floats, float]:
    """Return the histogram and entropy of the phases of the run's next rollout.

    It is played in as many environments as the program has: the run's own, repeated.
    """
    count, states = checkpoint.plan.num_envs, checkpoint.episodes
    if count <= num_envs:
        states = jax.tree.map(lambda x: jax.device_put(np.resize(np.asarray(x), (num_envs, *x.shape[1:]))), states)
    _, rollout = play(states, key)
    return phase_counts(np.asarray(rollout.steps)[:count], checkpoint.env.horizon)


def phase_counts(steps: Any, horizon: int) -> tuple[Floats, float]:
    """Return the counts of the phases of steps [N, T], and their entropy."""
    counts, entropy = _phases(steps, horizon)
    return np.asarray(counts), float(entropy)


@partial(quick_jit, static_argnums=1)
def _phases(steps: Array, horizon: int) -> tuple[Array, Array]:
    counts = phase_histogram(steps, horizon, steps >= 0)
    return counts, histogram_entropy(counts)


@partial(quick_jit, jit=eqx.filter_jit)
def reset_together(env: FunctionalEnv, num_envs: int, key: Array) -> Episode:
    """Start an episode in every environment."""
    fresh: Episode = jax.vmap(partial(start, env))(jax.random.split(key, num_envs))
    return fresh


@partial(quick_jit, jit=eqx.filter_jit)
def play_window(
    env: FunctionalEnv, estimator: Estimator, num_steps: int, policy: Policy, reward_moments: Moments | None,
    episodes: Episode, key: Array,
) -> tuple[Episode, Window]:  # fmt: skip
    """Play the next T steps."""
    policy_key, env_key = jax.random.split(key)
    episodes, rollout = collect_with_policy(env, policy, episodes, (policy_key, env_key), num_steps)
    if reward_moments is not None:
        rollout = rollout._replace(reward=scale_reward(reward_moments, rollout.reward))
    return episodes, _new_window(estimator, rollout)


def _new_window(estimator: Estimator, rollout: Rollout) -> Window:
    """Return a rollout [T, N, …] as a window [N, T, …] with the run's own advantages."""
    advantage = estimator.advantages(rollout)[0]
    if estimator.centers_advantages:
        advantage = advantage - advantage.mean()
    columns = (rollout.observation, rollout.action, advantage, rollout.steps)
    return Window(*(jnp.swapaxes(column, 0, 1) for column in columns))


@partial(quick_jit, jit=eqx.filter_jit)
def window_grams(policy: Policy, window: Window, staggered: Window) -> tuple[Array, Array]:
    """Return the Gram matrices [N, N] of the window's rows, and of these minus the staggered ones."""
    rows, others = (
        policy_rows(policy.network, policy.distribution, w.observation, w.action, w.advantage)
        for w in (window, staggered)
    )
    row_gram, cross = gram.row_gram(rows), gram.row_gram(rows, others)
    return row_gram, row_gram - cross - cross.T + gram.row_gram(others)
