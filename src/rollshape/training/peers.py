"""The speed of other libraries at a shape, measured by this module in a separate process.

    python -m rollshape.training.peers sb3 CartPole-v1 64 128

prints steps/s. Settings are those of `bench`: 4 epochs, 4 minibatches, 64-64 networks. SB3 has one thread, which is its
fastest on a CPU at these sizes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from rollshape.processes import SAFE_PATH

LIBRARIES = {"sb3": "stable_baselines3", "sbx": "sbx"}
SAMPLES = 40_000


def installed(python: str = sys.executable) -> list[str]:
    """The libraries that a Python has; without one, none."""
    if not python:
        return []
    code = f"import importlib.util as u; print(*[n for n, m in {LIBRARIES!r}.items() if u.find_spec(m)])"
    return _run([python, "-c", code]).split()


def speed_of(library: str, env_id: str, num_envs: int, num_steps: int, python: str = sys.executable) -> float:
    """Steps/s of a library, without its start and its first update."""
    command = [python, "-W", "ignore", "-m", __name__, library, env_id, str(num_envs), str(num_steps)]
    return float(_run(command).split()[-1])


def _run(command: list[str]) -> str:
    """Return what a command prints."""
    environment = {**os.environ, **SAFE_PATH}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def _measure(library: str, env_id: str, num_envs: int, num_steps: int) -> float:
    if library == "sb3":
        import torch
        from stable_baselines3 import PPO

        torch.set_num_threads(1)
    else:
        from sbx import PPO
    from stable_baselines3.common.env_util import make_vec_env

    size = num_envs * num_steps
    options: dict[str, Any] = {"n_steps": num_steps, "batch_size": size // 4, "n_epochs": 4, "ent_coef": 0.01}
    model: Any = PPO("MlpPolicy", make_vec_env(env_id, n_envs=num_envs, seed=0), seed=0, device="cpu", **options)
    model.learn(size)
    updates = max(2, SAMPLES // size)
    started = time.perf_counter()
    model.learn(updates * size, reset_num_timesteps=False)
    return updates * size / (time.perf_counter() - started)


if __name__ == "__main__":
    name, env, envs, steps = sys.argv[1:]
    print(_measure(name, env, int(envs), int(steps)))
