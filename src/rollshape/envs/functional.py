"""Environments as pure functions: states are values, so they can be stored, copied and branched from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.envs.spaces import UNLIMITED, Action, Continuous, Observation

State = Any  # a pytree; its structure depends on the environment


class StepResult(NamedTuple):
    """The result of one step, before any reset."""

    state: State
    observation: Array
    reward: Array
    terminated: Array


class FunctionalEnv(ABC):
    """Dynamics without time limit and reset; `step_and_reset` adds both, in the same way for all environments."""

    name: str
    observation: Observation
    action: Action
    max_steps: int | None  # episodes are truncated after this many steps

    @abstractmethod
    def reset(self, key: Array) -> tuple[State, Array]:
        """Return an initial state and its observation."""

    @abstractmethod
    def step(self, key: Array, state: State, action: Array) -> StepResult:
        """Take one step in one environment."""

    @property
    def horizon(self) -> int:
        """Maximum episode length, with a default for environments without a time limit."""
        return self.max_steps or UNLIMITED

    def agent_reward(self, reward: Array, total: Array, ended: Array) -> Array:  # noqa: ARG002
        """Return the reward that the agent receives; `total` is the return so far, `ended` whether the episode ends."""
        return reward

    def clip_action(self, action: Array) -> Array:
        """Return the action clipped to the bounds of its space; policies are unbounded."""
        space = self.action
        return jnp.clip(action, space.low, space.high) if isinstance(space, Continuous) else action


class Episode(NamedTuple):
    """The state of a running episode."""

    state: State
    observation: Array
    steps: Array  # since the reset
    total: Array  # undiscounted return so far


class Transition(NamedTuple):
    """One recorded step. If an episode ends, `observation` of the next Episode is already that of the reset.

    `final_observation` is the observation that the action led to; a truncated episode bootstraps from it.
    """

    reward: Array
    terminated: Array
    truncated: Array
    final_observation: Array
    episode_return: Array  # of the episode that ends with this step; undefined otherwise
    episode_length: Array
    true_reward: Array  # of the environment; `reward` differs if rewards are episodic


def start(env: FunctionalEnv, key: Array) -> Episode:
    """Start an episode in one environment."""
    state, observation = env.reset(key)
    return Episode(state, observation, jnp.zeros((), jnp.int32), jnp.zeros(()))


def step_and_reset(env: FunctionalEnv, key: Array, episode: Episode, action: Array) -> tuple[Episode, Transition]:
    """Take one step in one environment, and start a new episode if this one ended. The caller adds vmap."""
    step_key, reset_key = jax.random.split(key)
    same_episode, transition = step_episode(env, step_key, episode, action)
    new_episode, ended = start(env, reset_key), transition.terminated | transition.truncated
    return jax.tree.map(lambda new, old: jnp.where(ended, new, old), new_episode, same_episode), transition


def step_episode(env: FunctionalEnv, step_key: Array, episode: Episode, action: Array) -> tuple[Episode, Transition]:
    """Take one step in one environment without resetting it.

    An episode that terminates at the time limit counts as terminated, not as truncated.
    """
    result = env.step(step_key, episode.state, action)
    steps, total = episode.steps + 1, episode.total + result.reward
    expired = steps >= env.max_steps if env.max_steps is not None else jnp.zeros((), bool)
    truncated = expired & ~result.terminated
    reward = env.agent_reward(result.reward, total, result.terminated | truncated)
    transition = Transition(
        reward, result.terminated, truncated, result.observation, total, steps, true_reward=result.reward
    )
    return Episode(result.state, result.observation, steps, total), transition
