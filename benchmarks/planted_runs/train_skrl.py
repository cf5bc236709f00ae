"""Train a case with skrl, through its Runner."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch
from skrl.envs.wrappers.torch import wrap_env
from skrl.utils.runner.torch import Runner

from planted_runs.cases import MEASURE_EVERY, Case
from planted_runs.tasks import TASKS
from rollshape.integrations.skrl import record

LAYERS = [{"name": "net", "input": "OBSERVATIONS", "layers": [64, 64], "activations": "tanh"}]


class TaskEnv(gym.vector.VectorEnv):
    """A task as Gymnasium's vector environment."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}

    def __init__(self, case: Case, seed: int) -> None:
        self.task = TASKS[case.task](case.num_envs, seed, case.options)
        self.num_envs, self.spec = case.num_envs, gym.spec(self.task.name)
        features = self.task.num_features
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (features,), np.float32)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (case.num_envs, features), np.float32)
        if self.task.is_discrete:
            self.single_action_space: Any = gym.spaces.Discrete(2)
            self.action_space: Any = gym.spaces.MultiDiscrete([2] * case.num_envs)
        else:
            self.single_action_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)
            self.action_space = gym.spaces.Box(-2.0, 2.0, (case.num_envs, 1), np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:  # noqa: ARG002
        return self.task.observations(), {}

    def step(self, actions: Any) -> Any:
        outcome = self.task.step(actions)
        return outcome.observations, outcome.rewards, outcome.terminated, outcome.truncated, {}


def train(case: Case, seed: int, out: Path) -> None:
    torch.set_num_threads(1)
    env = wrap_env(TaskEnv(case, seed), "gymnasium", verbose=False)
    policy = "CategoricalMixin" if TASKS[case.task].is_discrete else "GaussianMixin"
    with tempfile.TemporaryDirectory() as scratch:
        agent: dict[str, Any] = {
            "class": "PPO",
            "rollouts": case.num_steps,
            "learning_epochs": case.num_epochs,
            "mini_batches": case.num_minibatches,
            "learning_rate": case.learning_rate,
            "discount_factor": case.gamma,
            "time_limit_bootstrap": True,
            "entropy_loss_scale": case.entropy_coef,
            "value_loss_scale": case.value_coef,
            "ratio_clip": case.clip_range,
            "experiment": {"directory": scratch, "write_interval": 0, "checkpoint_interval": 0},
        }
        if case.is_annealed:
            steps = case.num_updates * case.num_epochs  # it makes a step per epoch
            agent["learning_rate"] = case.learning_rate / 2  # its Adam has ε = 1e-8, not 1e-5: steps are larger
            agent["learning_rate_scheduler"] = torch.optim.lr_scheduler.LinearLR
            agent["learning_rate_scheduler_kwargs"] = {
                "start_factor": 1.0, "end_factor": 0.01, "total_iters": steps,
            }  # fmt: skip
        config = {
            "seed": seed,
            "models": {
                "separate": True,
                "policy": {"class": policy, "network": LAYERS, "output": "ACTIONS"},
                "value": {"class": "DeterministicMixin", "network": LAYERS, "output": "ONE"},
            },
            "memory": {"class": "RandomMemory", "memory_size": -1},
            "agent": agent,
            "trainer": {
                "class": "SequentialTrainer",
                "timesteps": case.num_updates * case.num_steps,
                "headless": True,
                "disable_progressbar": True,
                "close_environment_at_exit": False,
            },
        }
        runner = Runner(env, config)
        task = TASKS[case.task]
        name = task.name if case.reward_scale == 1.0 else None  # else its returns are not comparable
        record(runner.agent, out, every=MEASURE_EVERY, quiet=True, env=name, horizon=task.limit)
        runner.run("train")
