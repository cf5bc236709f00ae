"""Episodic reward: the agent receives the return of an episode at its end, and no reward before.

This also holds for a truncated episode, which stays truncated: algorithms that bootstrap there still do.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from rollshape.envs.functional import FunctionalEnv, State, StepResult
from rollshape.envs.host import Flags, HostEnv, HostStep, Snapshot, Values


class EpisodicEnv(FunctionalEnv):
    """A functional environment with episodic reward; `Transition.true_reward` is the original reward."""

    def __init__(self, env: FunctionalEnv) -> None:
        self.inner = env
        self.name, self.observation, self.action, self.max_steps = env.name, env.observation, env.action, env.max_steps

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpisodicEnv) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash((EpisodicEnv, self.inner))

    def reset(self, key: Array) -> tuple[State, Array]:
        return self.inner.reset(key)

    def step(self, key: Array, state: State, action: Array) -> StepResult:
        return self.inner.step(key, state, action)

    def clip_action(self, action: Array) -> Array:
        return self.inner.clip_action(action)

    def agent_reward(self, reward: Array, total: Array, ended: Array) -> Array:  # noqa: ARG002
        return jnp.where(ended, total, 0.0)


class EpisodicHost(HostEnv):
    """Host environments with episodic reward; `HostStep.true_reward` is the original reward."""

    def __init__(self, env: HostEnv) -> None:
        super().__init__(env.name, env.num_envs, env.observation, env.action, env.max_steps)
        self.guard = env.guard
        self.replays = env.replays
        self.inner = env
        self._totals = np.zeros(env.num_envs, np.float32)

    def clip_action(self, action: Values) -> Values:
        return self.inner.clip_action(action)

    def snapshot(self) -> Snapshot:
        return self.inner.snapshot() | {"totals": self._totals.copy()}

    def restore(self, snapshot: Snapshot) -> bool:
        inner = {name: values for name, values in snapshot.items() if name != "totals"}
        restored = self.inner.restore(inner)
        self._totals = snapshot["totals"].copy() if restored else np.zeros_like(self._totals)
        self.steps = self.inner.steps
        self._set_current(self.inner.current, self.inner.elapsed)
        return restored

    def close(self) -> None:
        self.inner.close()

    def _close(self) -> None:
        self.inner._close()

    def _render(self) -> NDArray[np.uint8] | None:
        return self.inner._render()

    def _reset(self, seed: int) -> Values:
        self._totals[:] = 0.0
        return self.inner.reset(seed)

    def _restart(self, mask: Flags) -> Values:
        self._totals[mask] = 0.0
        observations: Any = self.inner.restart(mask)[mask]
        return np.asarray(observations)

    def _step(self, action: Values) -> HostStep:
        step = self.inner.step(action)
        totals = self._totals + step.reward
        ended = step.terminated | step.truncated
        self._totals = np.where(ended, np.float32(0), totals)
        return step._replace(reward=np.where(ended, totals, np.float32(0)), true_reward=step.reward)
