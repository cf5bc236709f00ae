"""RSL-RL's runner on Gymnasium's Pendulum, recorded by one call of Rollshape.

Run, where rsl-rl-lib is installed: python examples/rsl_rl_runner.py [iterations] [run directory]
"""

from __future__ import annotations

import sys

import gymnasium as gym
import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from rollshape.integrations.rsl_rl import record

NETWORK = {"class_name": "MLPModel", "hidden_dims": [64, 64], "activation": "elu"}
CONFIG = {
    "num_steps_per_env": 24,
    "save_interval": 1000,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {**NETWORK, "distribution_cfg": {"class_name": "GaussianDistribution"}},
    "critic": NETWORK,
    "algorithm": {"class_name": "PPO", "num_learning_epochs": 5, "num_mini_batches": 4, "learning_rate": 1e-3},
}


class Pendulums(VecEnv):
    """Gymnasium's Pendulum as a vector environment of RSL-RL."""

    def __init__(self, num_envs: int) -> None:
        self.env = gym.make_vec(
            "Pendulum-v1",
            num_envs=num_envs,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP},
        )
        self.num_envs, self.num_actions, self.max_episode_length = num_envs, 1, 200
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.device, self.cfg = "cpu", {}
        self.observations = self._as_dict(self.env.reset(seed=0)[0])

    def _as_dict(self, observations) -> TensorDict:
        return TensorDict({"policy": torch.as_tensor(observations).float()}, batch_size=[self.num_envs])

    def get_observations(self) -> TensorDict:
        return self.observations

    def step(self, actions):
        observations, rewards, terminated, truncated, _ = self.env.step(actions.clamp(-2, 2).numpy())
        self.observations = self._as_dict(observations)
        rewards = torch.as_tensor(rewards).float()
        return (
            self.observations,
            rewards,
            torch.as_tensor(terminated | truncated),
            {"time_outs": torch.as_tensor(truncated)},
        )


def train(iterations: int, path: str | None, num_envs: int = 64, **options) -> OnPolicyRunner:
    torch.manual_seed(0)
    runner = OnPolicyRunner(Pendulums(num_envs), {**CONFIG, "algorithm": dict(CONFIG["algorithm"])}, device="cpu")
    if path is not None:
        record(runner, path, **options)  # the only line that Rollshape needs
    runner.learn(num_learning_iterations=iterations)
    return runner


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 50, sys.argv[2] if len(sys.argv) > 2 else "runs/rsl_rl")
