"""Rollshape itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollshape.geometry.dialects.base import Dialect, Key, TimeLimit
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.minibatch import Remainder
from rollshape.geometry.plan import plan


class Rollshape(Dialect):
    """The flags of `rollshape plan` and `rollshape train`; missing sizes are planned."""

    name = "rollshape"
    library = "Rollshape"
    version = "0.1.0"
    keys = (
        Key("num_envs", "num_envs"),
        Key("num_steps", "num_steps"),
        Key("rollout_size", "rollout_size"),
        Key("minibatch_size", "minibatch_size", "auto"),
        Key("num_minibatches", "num_minibatches"),
        Key("num_epochs", "num_epochs"),
        Key("total_timesteps", "total_timesteps"),
        Key("learning_rate", "learning_rate"),
        Key("gamma", "gamma"),
        Key("gae_lambda", "gae_lambda"),
        Key("clip_range", "clip_range"),
        Key("entropy_coef", "entropy_coef"),
        Key("value_coef", "value_coef"),
        Key("max_grad_norm", "max_grad_norm"),
        Key("target_kl", "target_kl"),
        Key("adaptive_kl", "adaptive_kl"),
    )
    remainder = Remainder.REFUSE
    remainder_detail = "{minibatch} does not divide the rollout size {rollout} (--on-remainder fix changes the sizes)"
    time_limit = TimeLimit.FINAL

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        names = ("num_envs", "num_steps", "rollout_size", "minibatch_size", "num_minibatches", "num_epochs")
        result = plan(**{name: sizes[name] for name in names if sizes.get(name) is not None})
        all_sizes = {**sizes, "minibatch_size": result.minibatch_size, "num_epochs": result.num_epochs}
        return self.recipe(all_sizes, result.num_envs, result.num_steps)

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        return {**super().emit(recipe), "rollout_size": None, "num_minibatches": None}
