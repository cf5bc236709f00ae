"""`bad_envs:RollshapeBad-v0` misbehaves as its options request: the `fault`, `at` which method, `after` which call."""

import ctypes
import os
import signal
import sys
import time
from collections import Counter
from typing import Any

import gymnasium
import numpy as np

LENGTH = 10
HEALTHY = "BAD_ENVS_ARE_HEALTHY"  # in os.environ: there is no fault


class Bad(gymnasium.Env[Any, Any]):
    """Takes random walks of ten steps; the call number `after` of the method `at` has the `fault`."""

    observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(
        self, fault: str = "none", at: str = "step", after: int = 20, render_mode: str | None = None, **_: Any
    ) -> None:
        self.fault, self.at, self.after, self.render_mode = fault, at, after, render_mode
        self.calls: Counter[str] = Counter()
        self.position, self.steps = np.zeros(2, np.float32), 0
        self._count("init")

    def reset(self, *, seed: int | None = None, **_: Any) -> Any:
        super().reset(seed=seed)
        self._count("reset")
        self.position, self.steps = self.np_random.normal(size=2).astype(np.float32), 0
        return self.position.copy(), {}

    def step(self, action: Any) -> Any:
        self._count("step")
        self.steps += 1
        self.position = np.clip(self.position + (2 * action - 1) / 10, -9, 9).astype(np.float32)
        return self.position.copy(), float(self.position[0]), False, self.steps == LENGTH, {}

    def render(self) -> Any:
        self._count("render")
        return np.zeros((8, 8, 3), np.uint8)

    def close(self) -> None:
        self._count("close")

    def _count(self, method: str) -> None:
        self.calls[method] += 1
        if method == self.at and self.calls[method] >= self.after and HEALTHY not in os.environ:
            misbehave(self.fault)


def misbehave(fault: str) -> None:
    """Hang, exit, crash or print."""
    match fault:
        case "none":
            pass
        case "print":
            print("printed by the environment", flush=True)
            ctypes.CDLL(None).puts(b"printed by C code")
        case "raise":
            raise ZeroDivisionError("by design")
        case "exit":
            sys.exit(7)
        case "interrupt":
            raise KeyboardInterrupt
        case "os-exit":
            os._exit(5)
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
            time.sleep(10)
        case "wait":
            time.sleep(1)
        case "sleep":
            time.sleep(10**6)
        case "spin":
            while True:
                pass
        case "stubborn":
            while True:
                try:
                    time.sleep(10**6)
                except BaseException:
                    continue
        case "deadlock":
            _lock_twice(ctypes.CDLL(None))  # releases the interpreter's lock, and no signal ends it
        case "frozen":
            _lock_twice(ctypes.PyDLL(None))  # keeps the interpreter's lock: no Python code runs in this process
        case _:
            raise ValueError(fault)


def _lock_twice(library: ctypes.CDLL) -> None:
    mutex = ctypes.create_string_buffer(128)  # zeros are PTHREAD_MUTEX_INITIALIZER
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


if "RollshapeBad-v0" not in gymnasium.registry:
    gymnasium.register("RollshapeBad-v0", entry_point=Bad)
