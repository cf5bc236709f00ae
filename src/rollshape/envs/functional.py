"""Environments that are pure functions: any state can be kept, copied, and branched from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.envs.spaces import UNLIMITED, Action, Continuous, Observation

State = Any  # a pytree of the environment's own


class Outcome(NamedTuple):
    """What one action leads to, before any reset."""

    state: State
    observation: Array
    reward: Array
    terminated: Array


class FunctionalEnv(ABC):
    """Dynamics without time limit and without reset: `Episode` adds both, alike for every environment."""

    name: str
    observation: Observation
    action: Action
    max_steps: int | None  # episodes are truncated after so many steps

    @abstractmethod
    def reset(self, key: Array) -> tuple[State, Array]:
        """A fresh state and its observation."""

    @abstractmethod
    def step(self, key: Array, state: State, action: Array) -> Outcome:
        """One step of one environment."""

    @property
    def horizon(self) -> int:
        """Steps of the longest episode that is looked at."""
        return self.max_steps or UNLIMITED

    def shown_reward(self, reward: Array, total: Array, ended: Array) -> Array:  # noqa: ARG002
        """What is told of a step's reward, given the episode's return so far and whether it ends here."""
        return reward

    def bounded(self, action: Array) -> Array:
        """The action within the bounds of its space; the policy itself is unbounded."""
        space = self.action
        return jnp.clip(action, space.low, space.high) if isinstance(space, Continuous) else action


class Episode(NamedTuple):
    """A running episode: what is carried from step to step."""

    state: State
    observation: Array
    steps: Array  # since its reset
    total: Array  # undiscounted return so far


class Transition(NamedTuple):
    """One step as it is reported. Where an episode ends, `observation` of the next Episode is already a fresh one.

    `final_observation` is where the action really led, the observation from which a truncated episode bootstraps.
    """

    reward: Array
    terminated: Array
    truncated: Array
    final_observation: Array
    episode_return: Array  # of the episode that ends here; meaningless elsewhere
    episode_length: Array
    true_reward: Array  # of the step itself; `reward` is another where the environment tells it only at the end


def start(env: FunctionalEnv, key: Array) -> Episode:
    """A fresh episode of one environment."""
    state, observation = env.reset(key)
    return Episode(state, observation, jnp.zeros((), jnp.int32), jnp.zeros(()))


def advance(env: FunctionalEnv, key: Array, episode: Episode, action: Array) -> tuple[Episode, Transition]:
    """One step of one environment, and a fresh episode where this one ended. The caller adds vmap."""
    step_key, reset_key = jax.random.split(key)
    going_on, report = stepped(env, step_key, episode, action)
    fresh, ended = start(env, reset_key), report.terminated | report.truncated
    return jax.tree.map(lambda new, old: jnp.where(ended, new, old), fresh, going_on), report


def stepped(env: FunctionalEnv, step_key: Array, episode: Episode, action: Array) -> tuple[Episode, Transition]:
    """One step of one environment, whether or not its episode has ended before or ends here.

    An episode that terminates at its last allowed step has terminated, and is not truncated.
    """
    outcome = env.step(step_key, episode.state, action)
    steps, total = episode.steps + 1, episode.total + outcome.reward
    expired = steps >= env.max_steps if env.max_steps is not None else jnp.zeros((), bool)
    truncated = expired & ~outcome.terminated
    shown = env.shown_reward(outcome.reward, total, outcome.terminated | truncated)
    report = Transition(
        shown, outcome.terminated, truncated, outcome.observation, total, steps, true_reward=outcome.reward
    )
    return Episode(outcome.state, outcome.observation, steps, total), report
