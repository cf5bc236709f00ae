"""Train a case with Stable-Baselines3, recorded by Rollshape's callback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from planted_runs.cases import MEASURE_EVERY, Case
from planted_runs.tasks import TASKS
from rollshape.integrations.sb3 import RollshapeCallback


class TaskEnv(VecEnv):
    """A task as SB3's VecEnv."""

    def __init__(self, case: Case, seed: int) -> None:
        self.task = TASKS[case.task](case.num_envs, seed, case.options)
        space = gym.spaces.Box(-np.inf, np.inf, (self.task.num_features,), np.float32)
        actions = gym.spaces.Discrete(2) if self.task.is_discrete else gym.spaces.Box(-2.0, 2.0, (1,), np.float32)
        self.spec = gym.spec(self.task.name) if case.reward_scale == 1.0 else None  # else another task
        self.render_mode = None
        super().__init__(case.num_envs, space, actions)

    def reset(self) -> Any:
        return self.task.observations()

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        outcome = self.task.step(self.actions)
        done = outcome.terminated | outcome.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for env in np.flatnonzero(done):
            infos[env] = {
                "terminal_observation": outcome.final[env],
                "TimeLimit.truncated": bool(outcome.truncated[env]),
            }
        return outcome.observations, outcome.rewards, done, infos

    def close(self) -> None:
        pass

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:  # noqa: ARG002
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **options: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:  # noqa: ARG002
        return [False] * self.num_envs


def train(case: Case, seed: int, out: Path) -> None:
    torch.set_num_threads(1)
    model = PPO(
        "MlpPolicy",
        VecMonitor(TaskEnv(case, seed)),
        n_steps=case.num_steps,
        batch_size=case.minibatch_size,
        n_epochs=case.num_epochs,
        learning_rate=LinearSchedule(case.learning_rate, 0.0, 1.0) if case.is_annealed else case.learning_rate,
        gamma=case.gamma,
        ent_coef=case.entropy_coef,
        vf_coef=case.value_coef,
        clip_range=case.clip_range,
        seed=seed,
        device="cpu",
    )
    total = case.num_updates * case.num_envs * case.num_steps
    model.learn(total, callback=RollshapeCallback(out, every=MEASURE_EVERY, quiet=True))
