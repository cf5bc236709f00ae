"""`chaos.faulty_envs:ChaosFaulty-v0` goes wrong at a given step while a trigger file exists."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

ENV_ID = "chaos.faulty_envs:ChaosFaulty-v0"
TRIGGER = "ROLLSHAPE_CHAOS_TRIGGER"  # variable with the path of the trigger file


class ChaosFaulty(gymnasium.Env[Any, Any]):
    """CartPole-like toy: a position that drifts with the action; episodes of 10 steps."""

    observation_space = gymnasium.spaces.Box(-50, 50, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, fault: str = "none", at: int = 10**9) -> None:
        self.fault, self.at, self.total = fault, at, 0
        self._go_wrong("init")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        super().reset(seed=seed)
        self.position, self.steps = float(self.np_random.uniform(-1, 1)), 0
        self._go_wrong("reset")
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.position += 0.5 if action else -0.5
        self.steps, self.total = self.steps + 1, self.total + 1
        values: list[Any] = [self._observe(), 1.0 - abs(self.position), self.steps >= 10, False, {}]
        if self.total >= self.at and _is_triggered():
            self._go_wrong("step")
            _spoil(self.fault, values)
        observation, reward, terminated, truncated, info = values
        return observation, reward, terminated, truncated, info

    def _observe(self) -> Any:
        return np.array([self.position, self.steps], np.float32)

    def _go_wrong(self, where: str) -> None:
        """Do what no environment should."""
        if not _is_triggered() or (where == "reset" and self.total < self.at):
            return
        match f"{where} {self.fault}":
            case "init raise-init" | "reset raise-reset" | "step raise":
                raise ZeroDivisionError("by design")
            case "step exit" | "init exit-init":
                sys.exit(7)
            case "step os-exit":
                os._exit(9)
            case "step interrupt" | "reset interrupt-reset":
                raise KeyboardInterrupt
            case "step hang" | "reset hang-reset":
                time.sleep(10_000)
            case "step segfault":
                ctypes.string_at(0)
            case "step abort":
                os.abort()
            case "step remove":
                shutil.rmtree(os.environ[f"{TRIGGER}_RUN"])
            case "step print":
                print('{"not": "ours"}')
            case "step base":
                raise BaseException("not even an Exception")
            case "step recursion":
                self._go_wrong("step")
            case "step memory":
                raise MemoryError


def _is_triggered() -> bool:
    path = os.environ.get(TRIGGER)
    return path is not None and Path(path).exists()


def _spoil(fault: str, values: list[Any]) -> None:
    """Return something else than an environment should: values are (observation, reward, …)."""
    match fault:
        case "nan-reward":
            values[1] = float("nan")
        case "inf-reward":
            values[1] = float("inf")
        case "nan-observation":
            values[0] = values[0] * np.nan
        case "shape":
            values[0] = values[0][:1]
        case "dtype":
            values[0] = values[0] * 1j
        case "text-reward":
            values[1] = "one"
        case "list-reward":
            values[1] = [1.0, 2.0]
        case "none-observation":
            values[0] = None
        case "array-done":
            values[2] = np.array([True, False])
        case "few-values":
            values.pop()
        case "text-info":
            values[4] = "info"


gymnasium.register("ChaosFaulty-v0", ChaosFaulty)
