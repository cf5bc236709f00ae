"""skrl, through its Runner: the reader of skrl's YAML."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from skrl.agents.torch.ppo import PPO
from skrl.envs.wrappers.torch import wrap_env
from skrl.resources.schedulers.torch import KLAdaptiveLR
from skrl.utils.runner.torch import Runner

from peers.drivers import CARTPOLE, SEED, Counted, Tally, before, each, seed_everything

LAYERS = [{"name": "net", "input": "OBSERVATIONS", "layers": [16], "activations": "tanh"}]
MODELS = {
    "separate": True,
    "policy": {"class": "CategoricalMixin", "network": LAYERS, "output": "ACTIONS"},
    "value": {"class": "DeterministicMixin", "network": LAYERS, "output": "ONE"},
}


def train(config: Mapping[str, Any]) -> Counted:
    return train_runner(config)[0]


def train_runner(config: Mapping[str, Any]) -> tuple[Counted, Runner]:
    seed_everything()
    agent = dict(config)
    num_envs, timesteps = agent.pop("num_envs"), agent.pop("timesteps")
    env = wrap_env(gym.make_vec(CARTPOLE, num_envs=num_envs, vectorization_mode="sync"), "gymnasium", verbose=False)
    with tempfile.TemporaryDirectory() as scratch:
        quiet = {"directory": scratch, "write_interval": 0, "checkpoint_interval": 0}
        runner = Runner(
            env,
            {
                "seed": SEED,
                "models": MODELS,
                "memory": {"class": "RandomMemory", "memory_size": -1},  # as many as rollouts
                "agent": {"class": "PPO", "experiment": quiet, **agent},
                "trainer": {
                    "class": "SequentialTrainer",
                    "timesteps": timesteps,
                    "headless": True,
                    "disable_progressbar": True,
                    "close_environment_at_exit": False,
                },
            },
        )
        return _counted(runner), runner


def _counted(runner: Runner) -> Counted:
    tally, agent = Tally(), runner.agent
    before(agent, "update", tally.new_update)
    each(agent.memory, "sample", lambda batch: tally.minibatch(len(batch[0])))
    with tally.watching():
        runner.run("train")
    return Counted(tally.minibatches, tally.steps, _settings(agent))


def _settings(agent: PPO) -> dict[str, float]:
    cfg = agent.cfg
    settings = {
        "learning_rate": cfg.learning_rate[0],
        "gamma": cfg.discount_factor,
        "gae_lambda": cfg.gae_lambda,
        "clip_range": cfg.ratio_clip,
        "entropy_coef": cfg.entropy_loss_scale,
        "value_coef": cfg.value_loss_scale,
    }
    if cfg.grad_norm_clip > 0:
        settings["max_grad_norm"] = cfg.grad_norm_clip
    if cfg.kl_threshold:
        settings["target_kl"] = cfg.kl_threshold
    if isinstance(agent.scheduler, KLAdaptiveLR):
        settings["adaptive_kl"] = agent.scheduler.kl_threshold
    else:
        settings["learning_rate"] = agent.optimizer.param_groups[0]["lr"]
    return settings
