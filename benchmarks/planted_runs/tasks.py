"""CartPole-v1 and Pendulum-v1 of Gymnasium for many environments at once, in NumPy: fast enough for many short runs.

Rewards and observations can be scaled, which is how two of the failures are planted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Outcome(NamedTuple):
    """A step of all environments; `observations` are those after resets, `final` those before."""

    observations: Array
    rewards: Array
    terminated: Array
    truncated: Array
    final: Array


@dataclass(frozen=True)
class Options:
    """What is planted in a task: scales, and environments that all reset at the same time."""

    reward_scale: float = 1.0
    observation_scale: tuple[float, ...] = ()
    is_staggered: bool = True


class Task:
    """Environments that run side by side and reset by themselves."""

    name: str
    limit: int
    num_features: int
    num_actions: int
    is_discrete: bool

    def __init__(self, num_envs: int, seed: int, options: Options) -> None:
        self.num_envs, self.options = num_envs, options
        self.rng = np.random.default_rng(seed)
        self.clock = np.zeros(num_envs, np.int64)
        if options.is_staggered:  # the first episodes are shorter
            self.clock += self.rng.integers(0, self.limit, num_envs)
        self.state = self.first(num_envs)

    def first(self, count: int) -> Array:
        raise NotImplementedError

    def move(self, actions: Array) -> tuple[Array, Array]:
        """Move the state; return (rewards, terminated)."""
        raise NotImplementedError

    def observe(self, state: Array) -> Array:
        raise NotImplementedError

    def observations(self) -> Array:
        scale = np.array(self.options.observation_scale or [1.0] * self.num_features)
        return (self.observe(self.state) * scale).astype(np.float32)

    def step(self, actions: Array) -> Outcome:
        rewards, terminated = self.move(actions)
        self.clock += 1
        truncated = (self.clock >= self.limit) & ~terminated
        final, ended = self.observations(), terminated | truncated
        if ended.any():
            self.state[ended] = self.first(int(ended.sum()))
            self.clock[ended] = 0
        scaled = (rewards * self.options.reward_scale).astype(np.float32)
        return Outcome(self.observations(), scaled, terminated, truncated, final)


class CartPole(Task):
    """Gymnasium's CartPole-v1. A real-valued action pushes right above zero."""

    name, limit, num_features, num_actions, is_discrete = "CartPole-v1", 500, 4, 2, True

    def first(self, count: int) -> Array:
        return self.rng.uniform(-0.05, 0.05, (count, 4))

    def move(self, actions: Array) -> tuple[Array, Array]:
        x, v, angle, turn = self.state.T
        force = np.where(np.asarray(actions).reshape(self.num_envs) > 0, 10.0, -10.0)
        cosine, sine = np.cos(angle), np.sin(angle)
        push = (force + 0.05 * turn**2 * sine) / 1.1
        twist = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine**2 / 1.1))
        speed = push - 0.05 * twist * cosine / 1.1
        self.state = np.stack([x + 0.02 * v, v + 0.02 * speed, angle + 0.02 * turn, turn + 0.02 * twist], 1)
        fallen = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 12 * np.pi / 180)
        return np.ones(self.num_envs), fallen

    def observe(self, state: Array) -> Array:
        return state


class Pendulum(Task):
    """Gymnasium's Pendulum-v1. Actions are torques, cut off at ±2."""

    name, limit, num_features, num_actions, is_discrete = "Pendulum-v1", 200, 3, 1, False

    def first(self, count: int) -> Array:
        return self.rng.uniform((-np.pi, -1.0), (np.pi, 1.0), (count, 2))

    def move(self, actions: Array) -> tuple[Array, Array]:
        angle, turn = self.state.T
        torque = np.clip(np.asarray(actions, np.float64).reshape(self.num_envs), -2, 2)
        centered = (angle + np.pi) % (2 * np.pi) - np.pi
        rewards = -(centered**2 + 0.1 * turn**2 + 0.001 * torque**2)
        turn = np.clip(turn + (15.0 * np.sin(angle) + 3.0 * torque) * 0.05, -8, 8)
        self.state = np.stack([angle + 0.05 * turn, turn], 1)
        return rewards, np.zeros(self.num_envs, bool)

    def observe(self, state: Array) -> Array:
        return np.stack([np.cos(state[:, 0]), np.sin(state[:, 0]), state[:, 1]], 1)


TASKS: dict[str, type[Task]] = {"cartpole": CartPole, "pendulum": Pendulum}
