"""rejax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import TimeLimit
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.divisors import largest_divisor
from rollshape.geometry.minibatch import Remainder

_EVALUATIONS = 20


class Rejax(Dialect):
    """The budget is rounded up twice: to evaluations of `eval_freq` steps, and within each to rollouts."""

    name = "rejax"
    library = "rejax PPO"
    version = "0.1.3"
    keys = (
        Key("num_envs", "num_envs", 64),
        Key("num_steps", "num_steps", 64),
        Key("num_minibatches", "num_minibatches", 16),
        Key("num_epochs", "num_epochs", 8),
        Key("total_timesteps", "total_timesteps", 131_072),
        Key("eval_freq", EXTRA, 4_096),
        Key("learning_rate", "learning_rate", 3e-4),
        Key("gamma", "gamma", 0.99),
        Key("gae_lambda", "gae_lambda", 0.95),
        Key("clip_eps", "clip_range", 0.2),
        Key("ent_coef", "entropy_coef", 0.01),
        Key("vf_coef", "value_coef", 0.5, scale=0.5),
    )
    remainder = Remainder.REFUSE
    remainder_detail = "AssertionError: (num_envs * num_steps) % num_minibatches == 0"
    rounds_up = True
    time_limit = TimeLimit.TERMINAL
    value_clip = "always clipped"
    notes = (
        "max_grad_norm clips single elements instead of the norm, so it is not translated",
        "actor and critic have separate optimizers, so the value coefficient has little effect",
    )

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        recipe = super().parse(sizes)
        total, every = recipe.total_timesteps, sizes.get("eval_freq")
        if total is None or not every:
            return recipe
        return replace(recipe, num_updates=-(-total // every) * -(-every // recipe.rollout_size))

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        updates, rollout = recipe.num_updates, recipe.rollout_size
        if updates is None:
            return super().emit(recipe)
        interval = updates // largest_divisor(updates, _EVALUATIONS)
        return {**super().emit(recipe), "total_timesteps": updates * rollout, "eval_freq": interval * rollout}
