"""Stable-Baselines3 and sbx."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from rollshape.geometry.dialects.base import Dialect, Key, TimeLimit
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.minibatch import Remainder

_KL_SLACK = 1.5  # an update stops if approx_kl exceeds this multiple of target_kl (ppo.py)


class SB3(Dialect):
    """`batch_size` is the minibatch size; the number of environments belongs to the env (`n_envs` in rl-zoo)."""

    name = "sb3"
    library = "Stable-Baselines3 PPO"
    version = "2.9.2"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("n_envs", "num_envs", 1),
        Key("n_steps", "num_steps", 2048),
        Key("batch_size", "minibatch_size", 64),
        Key("n_epochs", "num_epochs", 10),
        Key("n_timesteps", "total_timesteps", aliases=("total_timesteps",)),
        Key("learning_rate", "learning_rate", 3e-4),
        Key("gamma", "gamma", 0.99),
        Key("gae_lambda", "gae_lambda", 0.95),
        Key("clip_range", "clip_range", 0.2),
        Key("ent_coef", "entropy_coef", 0.0),
        Key("vf_coef", "value_coef", 0.5),
        Key("max_grad_norm", "max_grad_norm", 0.5),
        Key("target_kl", "target_kl", scale=_KL_SLACK),
    )
    remainder = Remainder.SHORT
    remainder_detail = "warns, then trains on a smaller last minibatch; a minibatch of one sample is not normalized"
    rounds_up = True
    time_limit = TimeLimit.FINAL

    def problem(self, recipe: Recipe) -> str:
        if recipe.refusal:
            return recipe.refusal
        if recipe.minibatch_size < 2 or recipe.rollout_size < 2:
            return "AssertionError: `batch_size` and `n_steps * n_envs` must be greater than 1"
        return ""

    def adapt(self, recipe: Recipe) -> Recipe:
        nearest = super().adapt(recipe)
        return nearest if nearest.minibatch_size > 1 else super().adapt(_with_two_samples(recipe))


def _with_two_samples(recipe: Recipe) -> Recipe:
    """Return the recipe with minibatches of two samples; a single sample cannot be normalized."""
    return replace(recipe, minibatch_size=min(2, recipe.rollout_size))


class SBX(SB3):
    """SB3 on JAX with the same constructor; `target_kl` adapts the learning rate instead of stopping the update."""

    name = "sbx"
    library = "sbx (SB3 on JAX) PPO"
    version = "0.28.0"
    keys: ClassVar[tuple[Key, ...]] = (*SB3.keys[:-1], Key("target_kl", "adaptive_kl"))
    notes: ClassVar[tuple[str, ...]] = (
        "actor and critic have separate optimizers, so the value coefficient has little effect",
    )
