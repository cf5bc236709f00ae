"""A Gymnasium environment that records its current episode, so that it can be repeated.

Each environment records the state of its random generator before the last reset, and the actions since then.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rollshape.envs.failures import SubEnvError, format_exception
from rollshape.envs.host import Values

LONGEST = 30_000  # recorded steps of an episode
WORD = 2**64


class RecordingEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One of N environments; it records its current episode, and adds its index to exceptions."""

    def __init__(self, env: gymnasium.Env[Any, Any], index: int) -> None:
        super().__init__(env)
        self.index = index
        self.reset_seed: int | None = None
        self.before: dict[str, Any] | None = None  # generator state, if the reset had no seed
        self.length = 0
        self.actions: list[Any] = []
        space = env.observation_space
        self._box = space if isinstance(space, gymnasium.spaces.Box) else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.reset_seed, self.before = seed, None if seed is not None else _generator(self)
        self.length, self.actions = 0, []
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except (Exception, SystemExit) as error:
            raise self._error(format_exception(error)) from error
        self._check(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.length += 1
        if self.length <= LONGEST:
            self.actions.append(action)
        try:
            result = self.env.step(action)
        except (Exception, SystemExit) as error:
            raise self._error(format_exception(error)) from error
        self._check(result[0])
        return result

    def repeat(self, seed: int | None, before: dict[str, Any], actions: Values) -> Any:
        """Return the observation after a reset and these actions; None if the episode ends before."""
        if seed is None:
            self.unwrapped.np_random.bit_generator.state = before
        observation, _ = self.reset(seed=seed)
        for action in actions:
            observation, _, terminated, truncated, _ = self.step(action)
            if terminated or truncated:
                return None
        return observation

    def _check(self, observation: Any) -> None:
        if self._box is None:
            return
        values, space = np.asarray(observation), self._box
        if values.shape != space.shape:
            raise self._error(f"observation of shape {values.shape}, but the space has {space.shape}.")
        if not np.can_cast(values.dtype, np.dtype(space.dtype), "same_kind"):
            raise self._error(f"observation of dtype {values.dtype}, but the space has {space.dtype}.")

    def _error(self, problem: str) -> SubEnvError:
        return SubEnvError(f"environment {self.index}: {problem}")


def _generator(env: gymnasium.Env[Any, Any]) -> dict[str, Any] | None:
    """Return the state of an environment's random generator, if it is a PCG64 (Gymnasium's default)."""
    state = getattr(getattr(env.unwrapped.np_random, "bit_generator", None), "state", {})
    return dict(state) if state.get("bit_generator") == "PCG64" else None


def generator_states(part: RecordingEnv) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the generator state before the last reset and now; a seeded reset needs no state before it."""
    now = _generator(part)
    return (now if part.reset_seed is not None else part.before), now


def to_words(state: dict[str, Any] | None) -> list[int] | None:
    """Return the state of PCG64 as six 64-bit words: two 128-bit numbers, and a buffered 32-bit value."""
    if state is None:
        return None
    numbers = state["state"]["state"], state["state"]["inc"]
    halves = [part for number in numbers for part in divmod(number, WORD)]
    return [*halves, state["has_uint32"], state["uinteger"]]


def from_words(words: NDArray[np.uint64]) -> dict[str, Any]:
    """Return the state of PCG64 that `to_words` describes."""
    a, b, c, d, has_uint32, uinteger = (int(word) for word in words)
    numbers = {"state": a * WORD + b, "inc": c * WORD + d}
    return {"bit_generator": "PCG64", "state": numbers, "has_uint32": has_uint32, "uinteger": uinteger}
