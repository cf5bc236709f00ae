"""Train a case with rl_games, recorded by Rollshape's observer. Nothing is normalized but the advantages."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from rl_games.common import env_configurations, vecenv
from rl_games.common.ivecenv import IVecEnv
from rl_games.torch_runner import Runner

from planted_runs.cases import MEASURE_EVERY, Case
from planted_runs.tasks import TASKS
from rollshape.integrations.rl_games import RollshapeObserver

ALGORITHMS = {True: ("a2c_discrete", "discrete_a2c"), False: ("a2c_continuous", "continuous_a2c_logstd")}
GAUSSIAN = {
    "mu_activation": "None",
    "sigma_activation": "None",
    "mu_init": {"name": "default"},
    "sigma_init": {"name": "const_initializer", "val": 0},
    "fixed_sigma": True,
}


class TaskEnv(IVecEnv):  # type: ignore[misc]
    """A task as rl_games' vector environment; it scales actions of ±1 to the bounds of the space."""

    def __init__(self, case: Case, seed: int) -> None:
        self.task = TASKS[case.task](case.num_envs, seed, case.options)

    def reset(self) -> Any:
        return self.task.observations()

    def step(self, actions: Any) -> Any:
        outcome = self.task.step(np.asarray(actions))
        ended = outcome.terminated | outcome.truncated
        return outcome.observations, outcome.rewards, ended, {"time_outs": outcome.truncated}

    def get_env_info(self) -> dict[str, Any]:
        actions = gym.spaces.Discrete(2) if self.task.is_discrete else gym.spaces.Box(-2.0, 2.0, (1,), np.float32)
        return {
            "observation_space": gym.spaces.Box(-np.inf, np.inf, (self.task.num_features,), np.float32),
            "action_space": actions,
        }


def config(case: Case, seed: int, env_name: str, folder: str) -> dict[str, Any]:
    task = TASKS[case.task]
    algorithm, model = ALGORITHMS[task.is_discrete]
    settings = {
        "name": "planted", "env_name": env_name, "device": "cpu", "torch_compile": False, "print_stats": False,
        "train_dir": folder, "save_best_after": 10**9, "reward_shaper": {"scale_value": 1.0},
        "normalize_advantage": True, "normalize_input": False, "normalize_value": False, "value_bootstrap": True,
        "clip_value": False, "num_actors": case.num_envs, "horizon_length": case.num_steps,
        "minibatch_size": case.minibatch_size, "mini_epochs": case.num_epochs, "max_epochs": case.num_updates,
        "learning_rate": case.learning_rate, "gamma": case.gamma, "tau": 0.95, "e_clip": case.clip_range,
        "entropy_coef": case.entropy_coef, "critic_coef": 2 * case.value_coef, "bounds_loss_coef": 0.0,
        "grad_norm": 0.5, "truncate_grads": True, "lr_schedule": "linear" if case.is_annealed else None, "ppo": True,
    }  # fmt: skip
    network = {
        "name": "actor_critic",
        "separate": True,
        "space": {"discrete": None} if task.is_discrete else {"continuous": GAUSSIAN},
        "mlp": {"units": [64, 64], "activation": "tanh", "initializer": {"name": "default"}},
    }
    return {
        "params": {
            "seed": seed, "torch_threads": 1, "algo": {"name": algorithm}, "model": {"name": model},
            "network": network, "config": settings,
        }
    }  # fmt: skip


def train(case: Case, seed: int, out: Path) -> None:
    torch.set_num_threads(1)
    task = TASKS[case.task]
    env_name = task.name if case.reward_scale == 1.0 else f"{case.task}-scaled"  # its returns are not comparable
    vecenv.register("PLANTED", lambda *_, **__: TaskEnv(case, seed))
    env_configurations.register(env_name, {"vecenv_type": "PLANTED", "env_creator": None})
    runner = Runner(RollshapeObserver(out, every=MEASURE_EVERY, quiet=True, horizon=task.limit))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        torch.manual_seed(seed)
        runner.load(config(case, seed, env_name, folder))
        agent = runner.algo_factory.create(runner.algo_name, base_name="run", params=runner.params)
        agent.train()
