"""Gymnasium environments that are easy to follow, and some that go wrong."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit

LIMIT, END = 5, 6


class Walk(gymnasium.Env[Any, Any]):
    """From a random start up by the action; pays position and action, and terminates at `END`."""

    observation_space = gymnasium.spaces.Box(0, 20, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(4)
    end = END

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        super().reset(seed=seed)
        self.position, self.steps = float(self.np_random.integers(0, 3)), 0
        return self.observed(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.position += float(action)
        self.steps += 1
        return self.observed(), self.position + action / 8, bool(self.position >= self.end), False, {}

    def observed(self) -> Any:
        return np.array([self.position, self.steps])


class Endless(Walk):
    end = 10**9


class Private(Walk):
    """Has a generator of its own that no seed reaches."""

    def observed(self) -> Any:
        return super().observed() + np.random.default_rng().random()


class Faulty(Endless):
    """Goes wrong in its third step, in one of several ways."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        if self.steps == 3:
            match self.fault:
                case "raises":
                    raise ZeroDivisionError("by design")
                case "nan":
                    observation[1] = np.nan
                case "reward":
                    reward = np.inf
                case "shape":
                    observation = observation[:1]
                case "dtype":
                    observation = observation * 1j
        return observation, reward, *rest


def walk(kind: type[Walk] = Walk) -> gymnasium.Env[Any, Any]:
    return TimeLimit(kind(), LIMIT)


for _name, _kind in (("Walk", Walk), ("Endless", Endless), ("Private", Private), ("Faulty", Faulty)):
    gymnasium.register(f"Rollshape{_name}-v0", _kind, max_episode_steps=LIMIT if _kind in (Walk, Private) else None)
