"""Acme's PPO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import Normalization, TimeLimit
from rollshape.geometry.dialects.keys import Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.divisors import nearest_quotient
from rollshape.geometry.minibatch import Remainder


class Acme(Dialect):
    """`batch_size` is the number of sequences of `unroll_length` per learner step, over all actors."""

    name = "acme"
    library = "Acme PPO"
    version = "2026-08"
    keys = (
        Key("num_actors", "num_envs", 1, aliases=("num_distributed_actors",)),
        Key("unroll_length", "num_steps", 8),
        Key("batch_size", "trajectories", 256),
        Key("num_minibatches", "num_minibatches", 8),
        Key("num_epochs", "num_epochs", 2),
        Key("max_num_actor_steps", "total_timesteps"),
        Key("learning_rate", "learning_rate", 3e-4),
        Key("discount", "gamma", 0.99),
        Key("gae_lambda", "gae_lambda", 0.95),
        Key("ppo_clipping_epsilon", "clip_range", 0.2),
        Key("entropy_cost", "entropy_coef", 3e-4),
        Key("value_cost", "value_coef", 1.0),
        Key("max_gradient_norm", "max_grad_norm", 0.5),
    )
    remainder = Remainder.REFUSE
    remainder_detail = "TypeError: cannot reshape array of {rollout} samples"
    normalization = Normalization.OFF
    time_limit = TimeLimit.FINAL
    notes = ("the ends of episodes are padded with zeros, and the padding is used for training",)

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        n, window, sequences = self.required(sizes, "num_envs"), sizes["num_steps"], sizes["trajectories"]
        refusal = f"batch_size {sequences:,} is not a multiple of {n:,} actors" if sequences % n else ""
        return replace(self.recipe(sizes, n, window * nearest_quotient(sequences, n), refusal), gae_window=window)

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        return {
            **super().emit(recipe),
            "num_steps": recipe.gae_window,
            "trajectories": recipe.rollout_size // recipe.gae_window,
        }

    def adapt(self, recipe: Recipe) -> Recipe:
        return replace(super().adapt(recipe), gae_window=recipe.gae_window)
