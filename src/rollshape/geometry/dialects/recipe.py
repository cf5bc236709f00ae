"""The common representation of all dialects: the content of a config, independent of the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rollshape.geometry.algorithms import Algo
from rollshape.geometry.completions import CompletionAlgo

HYPERPARAMETERS = {
    "learning_rate": "Adam learning rate",
    "gamma": "discount factor γ",
    "gae_lambda": "λ of GAE",
    "clip_range": "clip range of the ratio",
    "entropy_coef": "coefficient of the entropy bonus",
    "value_coef": "coefficient of mean((V − R)²); some libraries use half of it",
    "max_grad_norm": "maximum global gradient norm",
    "target_kl": "KL divergence that stops an update early",
    "adaptive_kl": "target KL divergence of an adaptive learning rate",
    "kl_loss_coef": "coefficient of the KL divergence from the reference model, in the loss",
    "kl_reward_coef": "coefficient of the KL divergence from the reference model, in the reward",
    "data_epochs": "passes over the dataset of prompts",
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A config in Rollshape's vocabulary.

    `num_steps` is the number of steps per environment and rollout; `gae_window` is the number of steps after which GAE
    bootstraps (the same, except for Brax and PufferLib). `num_minibatches` counts full minibatches. `total_timesteps`
    is the requested budget, `num_updates` the number of rollouts that the library collects. If the library rejects the
    sizes, `refusal` is the reason, and the sizes are the nearest whole numbers.

    All sizes are those of all processes together: each of `world_size` ranks has an equal part of the environments and
    of every minibatch. Each environment has `num_agents` agents that share a policy, and a timestep is a step of one
    agent. With a `recurrent` policy, `seq_length` is the length of the sequences that minibatches consist of; it is
    None if the library cuts and pads them as it likes.
    """

    num_envs: int
    num_steps: int
    minibatch_size: int
    num_minibatches: int
    num_epochs: int
    gae_window: int
    total_timesteps: int | None = None
    num_updates: int | None = None
    num_agents: int = 1
    world_size: int = 1
    recurrent: bool = False
    seq_length: int | None = None
    refusal: str = ""
    algo: Algo | CompletionAlgo = "ppo"
    bootstraps: bool = True  # from the value function at a time limit
    hyper: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)  # by key name; specific to the dialect

    @property
    def rollout_size(self) -> int:
        return self.num_envs * self.num_steps * self.num_agents

    @property
    def minibatch_unit(self) -> int:
        """The samples of which every minibatch contains a multiple: a sequence on each rank."""
        return self.world_size * (self.seq_length or 1)
