"""skrl's PPO on Gymnasium's Pendulum, recorded by one call of Rollshape.

Run, where skrl and torch are installed: python examples/skrl_agent.py [vector steps] [run directory]
"""

from __future__ import annotations

import sys
import tempfile

import gymnasium as gym
from skrl.envs.wrappers.torch import wrap_env
from skrl.utils.runner.torch import Runner

from rollshape.integrations.skrl import record

LAYERS = [{"name": "net", "input": "OBSERVATIONS", "layers": [64, 64], "activations": "elu"}]
MODELS = {
    "separate": True,
    "policy": {"class": "GaussianMixin", "network": LAYERS, "output": "2 * tanh(ACTIONS)"},
    "value": {"class": "DeterministicMixin", "network": LAYERS, "output": "ONE"},
}


def train(timesteps: int, path: str | None, num_envs: int = 16, rollouts: int = 64, **options) -> Runner:
    env = wrap_env(
        gym.make_vec("Pendulum-v1", num_envs=num_envs, vectorization_mode="sync"), "gymnasium", verbose=False
    )
    quiet = {"directory": tempfile.mkdtemp(), "write_interval": 0, "checkpoint_interval": 0}
    agent = {"class": "PPO", "rollouts": rollouts, "learning_epochs": 4, "mini_batches": 4, "experiment": quiet}
    runner = Runner(
        env,
        {
            "seed": 0,
            "models": MODELS,
            "memory": {"class": "RandomMemory", "memory_size": -1},
            "agent": agent | {"learning_rate": 1e-3, "discount_factor": 0.9},
            "trainer": {"class": "SequentialTrainer", "timesteps": timesteps, "headless": True,
                        "disable_progressbar": True, "close_environment_at_exit": False},
        },
    )  # fmt: skip
    if path is not None:
        record(runner.agent, path, env="Pendulum-v1", horizon=200, **options)  # the only line that Rollshape needs
    runner.run("train")
    return runner


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 6400, sys.argv[2] if len(sys.argv) > 2 else "runs/skrl")
