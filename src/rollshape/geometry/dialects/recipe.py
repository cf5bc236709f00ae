"""The words that all dialects share: what a config says, whichever library it was written for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HYPERPARAMETERS = {
    "learning_rate": "Adam's step size",
    "gamma": "discount γ",
    "gae_lambda": "GAE's λ",
    "clip_range": "clip range of the ratio",
    "entropy_coef": "coefficient of the entropy bonus",
    "value_coef": "factor on mean((V − R)²) in the loss; libraries differ by a ½",
    "max_grad_norm": "clip of the global gradient norm",
    "target_kl": "KL at which an update stops early",
    "adaptive_kl": "KL that an adaptive learning rate steers to",
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A config in Rollshape's words.

    `num_steps` is what an environment contributes to a rollout; `gae_window` is over how many of these steps GAE
    runs before it bootstraps (the same, but for Brax and PufferLib). `num_minibatches` counts full minibatches.
    `total_timesteps` is what was asked for, `num_updates` how many rollouts the library makes of it. Where the library
    refuses the sizes, `refusal` says why, and the sizes are the nearest whole ones.
    """

    num_envs: int
    num_steps: int
    minibatch_size: int
    num_minibatches: int
    num_epochs: int
    gae_window: int
    total_timesteps: int | None = None
    num_updates: int | None = None
    refusal: str = ""
    hyper: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)  # by the dialect's own key name; no other one knows them

    @property
    def rollout_size(self) -> int:
        return self.num_envs * self.num_steps
