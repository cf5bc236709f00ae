"""rl_games' PPO on Gymnasium's CartPole, recorded by an observer of Rollshape.

Run, where rl-games is installed: python examples/rl_games_observer.py [epochs] [run directory]
"""

from __future__ import annotations

import sys
import tempfile

import gymnasium as gym
import numpy as np
import torch
from rl_games.common import env_configurations, vecenv
from rl_games.common.ivecenv import IVecEnv
from rl_games.torch_runner import Runner

from rollshape.integrations.rl_games import RollshapeObserver


class CartPoles(IVecEnv):
    """Gymnasium's CartPole as a vector environment of rl_games."""

    def __init__(self, _: str, num_actors: int, **__) -> None:
        same_step = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
        self.env = gym.make_vec("CartPole-v1", num_envs=num_actors, vectorization_mode="sync", vector_kwargs=same_step)

    def reset(self):
        return self.env.reset(seed=0)[0].astype(np.float32)

    def step(self, actions):
        observations, rewards, terminated, truncated, _ = self.env.step(np.asarray(actions))
        done = terminated | truncated
        return observations.astype(np.float32), rewards.astype(np.float32), done, {"time_outs": truncated}

    def get_env_info(self):
        return {"observation_space": self.env.single_observation_space, "action_space": self.env.single_action_space}


vecenv.register("CARTPOLES", CartPoles)
env_configurations.register("CartPole-v1", {"vecenv_type": "CARTPOLES", "env_creator": None})


def config(epochs: int, num_actors: int, directory: str) -> dict:
    network = {
        "name": "actor_critic",
        "separate": False,
        "space": {"discrete": None},
        "mlp": {"units": [64, 64], "activation": "tanh", "initializer": {"name": "default"}},
    }
    settings = {
        "name": "cartpole", "env_name": "CartPole-v1", "device": "cpu", "torch_compile": False, "print_stats": False,
        "train_dir": directory, "save_best_after": 10**9, "reward_shaper": {"scale_value": 1.0},
        "normalize_advantage": True, "normalize_input": True, "normalize_value": True, "clip_value": True,
        "num_actors": num_actors, "horizon_length": 32, "minibatch_size": num_actors * 8, "mini_epochs": 4,
        "max_epochs": epochs, "learning_rate": 1e-3, "gamma": 0.99, "tau": 0.95, "e_clip": 0.2, "entropy_coef": 0.0,
        "critic_coef": 2, "grad_norm": 1.0, "truncate_grads": True, "lr_schedule": None, "ppo": True,
    }  # fmt: skip
    return {
        "params": {
            "seed": 0, "torch_threads": 1, "algo": {"name": "a2c_discrete"}, "model": {"name": "discrete_a2c"},
            "network": network, "config": settings,
        }
    }  # fmt: skip


def train(epochs: int, path: str | None, num_actors: int = 32, **options):
    observer = (
        None if path is None else RollshapeObserver(path, horizon=500, **options)
    )  # the only line that Rollshape needs
    runner = Runner(observer)
    with tempfile.TemporaryDirectory() as directory:
        torch.manual_seed(0)
        runner.load(config(epochs, num_actors, directory))
        agent = runner.algo_factory.create(runner.algo_name, base_name="run", params=runner.params)
        agent.train()
    return agent


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 50, sys.argv[2] if len(sys.argv) > 2 else "runs/rl_games")
