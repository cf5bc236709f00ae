"""Our host environments as an SB3 VecEnv, so that both learn from the very same pool of EnvPool environments."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from rollshape.envs.registry import make_host
from rollshape.envs.spaces import Continuous


class HostVecEnv(VecEnv):
    """SB3 wants the fresh observation in the step that ends an episode, and where the episode led in its info."""

    def __init__(self, env_id: str, num_envs: int, seed: int) -> None:
        self.env = make_host(env_id, num_envs)
        shape, action = self.env.observation.shape, self.env.action
        assert isinstance(action, Continuous)
        bounds = (np.float32(action.low), np.float32(action.high))
        super().__init__(
            num_envs, spaces.Box(-np.inf, np.inf, shape, np.float32), spaces.Box(*bounds, (action.dim,), np.float32)
        )
        self.first = seed
        self.returns = np.zeros(num_envs)
        self.actions: Any = None

    def reset(self) -> np.ndarray:
        self.returns[:] = 0
        return self.env.reset(self.first)

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        outcome = self.env.step(self.env.clip_action(self.actions))
        self.returns += outcome.reward
        done = outcome.terminated | outcome.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(done):
            infos[i] = {
                "terminal_observation": outcome.final_observation[i],
                "TimeLimit.truncated": bool(outcome.truncated[i]),
                "episode_return": float(self.returns[i]),
            }
        self.returns[done] = 0
        observation = self.env.restart(done) if done.any() else outcome.observation
        return observation, outcome.reward, done, infos

    def close(self) -> None:
        self.env.close()

    def env_is_wrapped(self, *_: Any, **__: Any) -> list[bool]:
        return [False] * self.num_envs

    def env_method(self, *_: Any, **__: Any) -> list[Any]:
        raise NotImplementedError

    def get_attr(self, *_: Any, **__: Any) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError
