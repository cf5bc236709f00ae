"""RSL-RL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import torch
from rsl_rl.algorithms import PPO
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from peers.drivers import CARTPOLE, SEED, Counted, Pair, Tally, before, each, seed_everything

MODEL = {"class_name": "MLPModel", "hidden_dims": [16], "activation": "tanh"}
RECURRENT = MODEL | {"class_name": "RNNModel", "rnn_type": "gru", "rnn_hidden_dim": 8}


class LabelledCartPoles(VecEnv):
    """CartPole whose observations carry a label that no network sees: which (step, environment) they are.

    RSL-RL has no discrete actions, so a Gaussian one is pushed left below zero and right above.
    """

    def __init__(self, num_envs: int) -> None:
        self.env = gym.make_vec(
            CARTPOLE,
            num_envs=num_envs,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP},
        )
        self.num_envs, self.num_actions, self.max_episode_length = num_envs, 1, 500
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.device, self.cfg, self.clock = "cpu", {}, 0
        self.latest = self._labelled(self.env.reset(seed=SEED)[0])

    def _labelled(self, observations: Any) -> TensorDict:
        labels = torch.tensor([[self.clock, env] for env in range(self.num_envs)], dtype=torch.float32)
        policy = torch.as_tensor(observations, dtype=torch.float32)
        return TensorDict({"policy": policy, "label": labels}, batch_size=[self.num_envs])

    def get_observations(self) -> TensorDict:
        return self.latest

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        observations, rewards, ended, cut, _ = self.env.step((actions[:, 0] > 0).long().numpy())
        self.clock += 1
        self.latest = self._labelled(observations)
        extras = {"time_outs": torch.as_tensor(cut & ~ended)}
        return self.latest, torch.as_tensor(rewards, dtype=torch.float32), torch.as_tensor(ended | cut), extras


def train(config: Mapping[str, Any], model: Mapping[str, Any] = MODEL, device: str = "cpu") -> Counted:
    return train_runner(config, model, device)[0]


def train_runner(
    config: Mapping[str, Any], model: Mapping[str, Any] = MODEL, device: str = "cpu"
) -> tuple[Counted, OnPolicyRunner]:
    seed_everything()
    algorithm = dict(config)
    num_envs, num_steps = algorithm.pop("num_envs"), algorithm.pop("num_steps_per_env")
    iterations = algorithm.pop("max_iterations")
    runner = OnPolicyRunner(
        LabelledCartPoles(num_envs),
        {
            "num_steps_per_env": num_steps,
            "save_interval": 10**9,
            "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
            "actor": {**model, "distribution_cfg": {"class_name": "GaussianDistribution"}},
            "critic": dict(model),
            "algorithm": {"class_name": "PPO", **algorithm},
        },
        log_dir=None,
        device=device,
    )
    tally, trained = Tally(), []
    settings = _settings(runner.alg)  # before an adaptive schedule moves the learning rate

    def minibatch(batch: Any) -> None:
        labels = batch.observations["label"]
        labels = labels if batch.masks is None else labels[batch.masks]  # trajectories are padded
        pairs = [(int(clock) % num_steps, int(env)) for clock, env in labels.tolist()]
        tally.minibatch(len(pairs))
        trained[-1].extend(pairs)

    before(runner.alg, "update", tally.new_update)
    before(runner.alg, "update", lambda: trained.append([]))
    each(runner.alg.storage, "mini_batch_generator", minibatch)
    each(runner.alg.storage, "recurrent_mini_batch_generator", minibatch)
    with tally.watching():
        runner.learn(iterations)
    return Counted(tally.minibatches, tally.steps, settings, trained), runner


def lost(trained: list[Pair], num_envs: int, num_steps: int) -> set[Pair]:
    """The pairs of a rollout that no minibatch held."""
    return {(step, env) for step in range(num_steps) for env in range(num_envs)} - set(trained)


def _settings(algorithm: PPO) -> dict[str, float]:
    settings = {
        "learning_rate": algorithm.optimizer.param_groups[0]["lr"],
        "gamma": algorithm.gamma,
        "gae_lambda": algorithm.lam,
        "clip_range": algorithm.clip_param,
        "entropy_coef": algorithm.entropy_coef,
        "value_coef": algorithm.value_loss_coef,
        "max_grad_norm": algorithm.max_grad_norm,
    }
    return settings | ({"adaptive_kl": algorithm.desired_kl} if algorithm.schedule == "adaptive" else {})
