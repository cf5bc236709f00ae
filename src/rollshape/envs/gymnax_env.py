"""Environments of gymnax. Imported only when needed, because importing gymnax takes seconds."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from rollshape.envs.functional import FunctionalEnv, State, StepResult
from rollshape.envs.spaces import Action, Continuous, Discrete, Observation
from rollshape.errors import RequestError


class GymnaxEnv(FunctionalEnv):
    """A gymnax environment; we apply its time limit, so that truncation and termination are distinguished."""

    def __init__(self, name: str, env: Any, params: Any) -> None:
        self.name = f"gymnax:{name}"
        self._env, self._params = env, params
        self.max_steps = int(params.max_steps_in_episode)
        space = env.observation_space(params)
        self.observation = Observation(tuple(space.shape), str(jnp.dtype(space.dtype)))
        self.action = _action(name, env.action_space(params))

    def reset(self, key: Array) -> tuple[State, Array]:
        observation, state = self._env.reset_env(key, self._params)
        return state, self._encode(observation)

    def step(self, key: Array, state: State, action: Array) -> StepResult:
        observation, state, reward, terminated, _ = self._env.step_env(key, state, action, self._params)
        return StepResult(state, self._encode(observation), jnp.float32(reward), jnp.asarray(terminated, bool))

    def _encode(self, observation: Array) -> Array:
        return jnp.asarray(observation, self.observation.dtype)


def _action(name: str, space: Any) -> Action:
    kind = type(space).__name__
    if kind == "Discrete":
        return Discrete(int(space.n))
    if kind == "Box" and len(space.shape) <= 1:
        return Continuous(max(1, *space.shape, 1), float(jnp.min(space.low)), float(jnp.max(space.high)))
    raise RequestError(
        "environment", f"The action space {kind} of gymnax:{name} is not supported.", "Use another environment."
    )


def make_gymnax(name: str, **options: Any) -> GymnaxEnv:
    """Create a gymnax environment; options replace its default parameters."""
    try:
        import gymnax
    except ImportError as error:
        raise RequestError(
            "environment", f"gymnax cannot be imported: {error}.", "pip install 'rollshape[gymnax]'."
        ) from None
    try:
        env, params = gymnax.make(name)
        params = params.replace(**options) if options else params
    except (ValueError, TypeError, KeyError) as error:
        text = " ".join(str(error).split())[:200]
        raise RequestError(
            "environment", f"gymnax cannot create {name}: {text}.", "Check the id and its options."
        ) from None
    return GymnaxEnv(name, env, params)
