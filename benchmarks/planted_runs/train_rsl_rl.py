"""Train a case with RSL-RL. It has Gaussian policies only: CartPole is pushed right by an action above zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from planted_runs.cases import MEASURE_EVERY, Case
from planted_runs.tasks import TASKS
from rollshape.integrations.rsl_rl import record

MODEL = {"class_name": "MLPModel", "hidden_dims": [64, 64], "activation": "tanh"}


class TaskEnv(VecEnv):
    """A task as RSL-RL's VecEnv."""

    def __init__(self, case: Case, seed: int) -> None:
        self.task = TASKS[case.task](case.num_envs, seed, case.options)
        self.num_envs, self.num_actions, self.max_episode_length = case.num_envs, 1, self.task.limit
        self.episode_length_buf = torch.as_tensor(self.task.clock)
        self.device, self.cfg = "cpu", {}
        self.spec = gym.spec(self.task.name) if case.reward_scale == 1.0 else None  # else another task

    def get_observations(self) -> TensorDict:
        return TensorDict({"policy": torch.as_tensor(self.task.observations())}, batch_size=[self.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        outcome = self.task.step(actions.numpy())
        self.episode_length_buf = torch.as_tensor(self.task.clock)
        ended = torch.as_tensor(outcome.terminated | outcome.truncated)
        extras = {"time_outs": torch.as_tensor(outcome.truncated)}
        return self.get_observations(), torch.as_tensor(outcome.rewards), ended, extras


def train(case: Case, seed: int, out: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    config = {
        "num_steps_per_env": case.num_steps,
        "max_iterations": case.num_updates,
        "save_interval": 10**9,
        "seed": seed,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**MODEL, "distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": dict(MODEL),
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": case.num_epochs,
            "num_mini_batches": case.num_minibatches,
            "learning_rate": case.learning_rate / (2 if case.is_annealed else 1),  # no schedule falls linearly
            "schedule": "fixed",
            "gamma": case.gamma,
            "lam": 0.95,
            "entropy_coef": case.entropy_coef,
            "value_loss_coef": case.value_coef,
            "clip_param": case.clip_range,
            "max_grad_norm": 0.5,
        },
    }
    runner = OnPolicyRunner(TaskEnv(case, seed), config, log_dir=None, device="cpu")
    record(runner, out, every=MEASURE_EVERY, quiet=True)
    runner.learn(case.num_updates)
