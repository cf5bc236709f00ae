"""Rollshape's own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollshape.geometry.dialects.base import Dialect, Key, TimeLimit
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.minibatch import Remainder
from rollshape.geometry.plan import plan


class Rollshape(Dialect):
    """The flags of `rollshape plan` and `rollshape train`; what is not said is planned."""

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
    remainder_detail = "the rollout of {rollout} does not divide by {minibatch} (--on-remainder fix repairs it)"
    time_limit = TimeLimit.FINAL

    def hear(self, said: Mapping[str, Any]) -> Recipe:
        sizes = ("num_envs", "num_steps", "rollout_size", "minibatch_size", "num_minibatches", "num_epochs")
        made = plan(**{name: said[name] for name in sizes if said.get(name) is not None})
        whole = {**said, "minibatch_size": made.minibatch_size, "num_epochs": made.num_epochs}
        return self.recipe(whole, made.num_envs, made.num_steps)

    def say(self, recipe: Recipe) -> dict[str, Any]:
        return {**super().say(recipe), "rollout_size": None, "num_minibatches": None}
