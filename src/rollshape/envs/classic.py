"""Classic control as pure functions: the equations of Gymnasium's environments, in float32.

Implemented here because importing gymnax takes seconds; tested step by step against Gymnasium and gymnax.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.envs.functional import FunctionalEnv, StepResult
from rollshape.envs.spaces import Action, Continuous, Discrete, Observation


@dataclass(frozen=True)
class CartPole(FunctionalEnv):
    """Balance a pole on a cart (Barto, Sutton and Anderson 1983). State: x, ẋ, θ, θ̇."""

    name: str = "CartPole-v1"
    observation: Observation = Observation((4,))
    action: Action = Discrete(2)
    max_steps: int | None = 500

    def reset(self, key: Array) -> tuple[Array, Array]:
        state = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
        return state, state

    def step(self, key: Array, state: Array, action: Array) -> StepResult:  # noqa: ARG002 (deterministic)
        gravity, mass_pole, mass, half_length, tau = 9.8, 0.1, 1.1, 0.5, 0.02
        x, x_dot, theta, theta_dot = state
        force = jnp.where(action == 1, 10.0, -10.0)
        sin, cos = jnp.sin(theta), jnp.cos(theta)
        push = (force + mass_pole * half_length * theta_dot**2 * sin) / mass
        theta_acc = (gravity * sin - cos * push) / (half_length * (4.0 / 3.0 - mass_pole * cos**2 / mass))
        x_acc = push - mass_pole * half_length * theta_acc * cos / mass
        next_state = jnp.stack(
            [x + tau * x_dot, x_dot + tau * x_acc, theta + tau * theta_dot, theta_dot + tau * theta_acc]
        )
        has_fallen = (jnp.abs(next_state[0]) > 2.4) | (jnp.abs(next_state[2]) > 12 * pi / 180)
        return StepResult(next_state, next_state, jnp.ones(()), has_fallen)


@dataclass(frozen=True)
class Pendulum(FunctionalEnv):
    """Swing a pendulum up with a weak motor. State: θ (0 is up), θ̇."""

    name: str = "Pendulum-v1"
    observation: Observation = Observation((3,))
    action: Action = Continuous(1, -2.0, 2.0)
    max_steps: int | None = 200

    def _observe(self, state: Array) -> Array:
        return jnp.stack([jnp.cos(state[0]), jnp.sin(state[0]), state[1]])

    def reset(self, key: Array) -> tuple[Array, Array]:
        state = jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0) * jnp.array([pi, 1.0])
        return state, self._observe(state)

    def step(self, key: Array, state: Array, action: Array) -> StepResult:  # noqa: ARG002
        theta, theta_dot = state
        torque = jnp.clip(action[0], -2.0, 2.0)
        angle = (theta + pi) % (2 * pi) - pi
        cost = angle**2 + 0.1 * theta_dot**2 + 0.001 * torque**2
        theta_dot = jnp.clip(theta_dot + (15.0 * jnp.sin(theta) + 3.0 * torque) * 0.05, -8.0, 8.0)
        next_state = jnp.stack([theta + theta_dot * 0.05, theta_dot])
        return StepResult(next_state, self._observe(next_state), -cost, jnp.zeros((), bool))


def _drive(state: Array, force: Array) -> Array:
    """Return position and velocity of the car after one step; the left wall stops it (Moore 1990)."""
    position, velocity = state
    velocity = jnp.clip(velocity + force - 0.0025 * jnp.cos(3 * position), -0.07, 0.07)
    position = jnp.clip(position + velocity, -1.2, 0.6)
    return jnp.stack([position, jnp.where((position <= -1.2) & (velocity < 0), 0.0, velocity)])


def _reset_car(key: Array) -> tuple[Array, Array]:
    state = jnp.stack([jax.random.uniform(key, (), minval=-0.6, maxval=-0.4), jnp.zeros(())])
    return state, state


@dataclass(frozen=True)
class MountainCar(FunctionalEnv):
    """Drive a car out of a valley with three actions."""

    name: str = "MountainCar-v0"
    observation: Observation = Observation((2,))
    action: Action = Discrete(3)
    max_steps: int | None = 200

    def reset(self, key: Array) -> tuple[Array, Array]:
        return _reset_car(key)

    def step(self, key: Array, state: Array, action: Array) -> StepResult:  # noqa: ARG002
        next_state = _drive(state, (action - 1) * 0.001)
        at_goal = (next_state[0] >= 0.5) & (next_state[1] >= 0.0)
        return StepResult(next_state, next_state, -jnp.ones(()), at_goal)


@dataclass(frozen=True)
class MountainCarContinuous(FunctionalEnv):
    """Drive a car out of a valley with a continuous throttle and a fuel cost."""

    name: str = "MountainCarContinuous-v0"
    observation: Observation = Observation((2,))
    action: Action = Continuous(1, -1.0, 1.0)
    max_steps: int | None = 999

    def reset(self, key: Array) -> tuple[Array, Array]:
        return _reset_car(key)

    def step(self, key: Array, state: Array, action: Array) -> StepResult:  # noqa: ARG002
        throttle = jnp.clip(action[0], -1.0, 1.0)
        next_state = _drive(state, throttle * 0.0015)
        at_goal = (next_state[0] >= 0.45) & (next_state[1] >= 0.0)
        return StepResult(next_state, next_state, jnp.where(at_goal, 100.0, 0.0) - 0.1 * action[0] ** 2, at_goal)


@dataclass(frozen=True)
class Acrobot(FunctionalEnv):
    """Swing a double pendulum over the bar (Sutton 1996, the book's equations). State: θ₁, θ₂, θ̇₁, θ̇₂."""

    name: str = "Acrobot-v1"
    observation: Observation = Observation((6,))
    action: Action = Discrete(3)
    max_steps: int | None = 500

    def _observe(self, state: Array) -> Array:
        first, second, *speeds = state
        return jnp.stack([jnp.cos(first), jnp.sin(first), jnp.cos(second), jnp.sin(second), *speeds])

    def reset(self, key: Array) -> tuple[Array, Array]:
        state = jax.random.uniform(key, (4,), minval=-0.1, maxval=0.1)
        return state, self._observe(state)

    def step(self, key: Array, state: Array, action: Array) -> StepResult:  # noqa: ARG002
        torque = action - 1.0
        dt = 0.2  # one Runge–Kutta step of fourth order
        k1 = self._derivative(state, torque)
        k2 = self._derivative(state + dt / 2 * k1, torque)
        k3 = self._derivative(state + dt / 2 * k2, torque)
        k4 = self._derivative(state + dt * k3, torque)
        raw = state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        angles = (raw[:2] + pi) % (2 * pi) - pi
        speeds = jnp.clip(raw[2:], jnp.array([-4 * pi, -9 * pi]), jnp.array([4 * pi, 9 * pi]))
        next_state = jnp.concatenate([angles, speeds])
        over = -jnp.cos(angles[0]) - jnp.cos(angles[1] + angles[0]) > 1.0
        return StepResult(next_state, self._observe(next_state), jnp.where(over, 0.0, -1.0), over)

    def _derivative(self, state: Array, torque: Array) -> Array:
        # Both links: mass 1, length 1, center at .5, inertia 1.
        theta1, theta2, dtheta1, dtheta2 = state
        g = 9.8
        d1 = 0.25 + (1.25 + jnp.cos(theta2)) + 2.0
        d2 = 0.25 + 0.5 * jnp.cos(theta2) + 1.0
        phi2 = 0.5 * g * jnp.cos(theta1 + theta2 - pi / 2)
        phi1 = (
            -0.5 * dtheta2**2 * jnp.sin(theta2)
            - dtheta2 * dtheta1 * jnp.sin(theta2)
            + 1.5 * g * jnp.cos(theta1 - pi / 2)
            + phi2
        )
        acc2 = (torque + d2 / d1 * phi1 - 0.5 * dtheta1**2 * jnp.sin(theta2) - phi2) / (1.25 - d2**2 / d1)
        acc1 = -(d2 * acc2 + phi1) / d1
        return jnp.stack([dtheta1, dtheta2, acc1, acc2])
