"""Stable-Baselines3's PPO on CartPole, recorded by a callback of Rollshape.

Run, where stable-baselines3 is installed: python examples/sb3_callback.py [timesteps] [run directory]
"""

from __future__ import annotations

import sys

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from rollshape.integrations.sb3 import RollshapeCallback


def train(timesteps: int, path: str | None, num_envs: int = 32, num_steps: int = 64, **options) -> PPO:
    envs = make_vec_env("CartPole-v1", n_envs=num_envs, seed=0)
    model = PPO("MlpPolicy", envs, n_steps=num_steps, batch_size=256, seed=0, device="cpu")
    callback = None if path is None else RollshapeCallback(path, **options)  # the only line that Rollshape needs
    return model.learn(timesteps, callback=callback)


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, sys.argv[2] if len(sys.argv) > 2 else "runs/sb3")
