"""Episodic reward: the return of an episode is told when it ends, and nothing before.

An episode that a time limit cuts off is told, too, and stays truncated: a learner that bootstraps there still does.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.envs.functional import FunctionalEnv, Outcome, State
from rollshape.envs.host import Flags, HostEnv, HostStep, Snapshot, Values


class EpisodicEnv(FunctionalEnv):
    """A functional environment; `Transition.true_reward` is what it hides."""

    def __init__(self, env: FunctionalEnv) -> None:
        self.inner = env
        self.name, self.observation, self.action, self.max_steps = env.name, env.observation, env.action, env.max_steps

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpisodicEnv) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash((EpisodicEnv, self.inner))

    def reset(self, key: Array) -> tuple[State, Array]:
        return self.inner.reset(key)

    def step(self, key: Array, state: State, action: Array) -> Outcome:
        return self.inner.step(key, state, action)

    def bounded(self, action: Array) -> Array:
        return self.inner.bounded(action)

    def shown_reward(self, reward: Array, total: Array, ended: Array) -> Array:  # noqa: ARG002
        return jnp.where(ended, total, 0.0)


class EpisodicHost(HostEnv):
    """A pool of host environments; `HostStep.true_reward` is what it hides."""

    def __init__(self, env: HostEnv) -> None:
        super().__init__(env.name, env.num_envs, env._observation_space, env._action_space, env.max_steps)
        self.observation = env.observation
        self.replays = env.replays
        self.inner = env
        self._totals = np.zeros(env.num_envs, np.float32)

    def snapshot(self) -> Snapshot:
        return self.inner.snapshot() | {"totals": self._totals.copy()}

    def restore(self, snapshot: Snapshot) -> bool:
        inner = {name: values for name, values in snapshot.items() if name != "totals"}
        whole = self.inner.restore(inner)
        self._totals = snapshot["totals"].copy() if whole else np.zeros_like(self._totals)
        self.steps = self.inner.steps
        self._begin(self.inner.current, self.inner.elapsed)
        return whole

    def close(self) -> None:
        self.inner.close()

    def _reset(self, seed: int) -> Values:
        self._totals[:] = 0.0
        return self.inner.reset(seed)

    def _restart(self, chosen: Flags) -> Values:
        self._totals[chosen] = 0.0
        fresh: Any = self.inner.restart(chosen)[chosen]
        return np.asarray(fresh)

    def _step(self, action: Values) -> HostStep:
        outcome = self.inner.step(action)
        totals = self._totals + outcome.reward
        ended = outcome.terminated | outcome.truncated
        self._totals = np.where(ended, np.float32(0), totals)
        return outcome._replace(reward=np.where(ended, totals, np.float32(0)), true_reward=outcome.reward)
