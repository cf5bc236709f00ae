"""Tianshou 2."""

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

_MOST_EPOCHS = 100
_BUFFER = 4096


class Tianshou(Dialect):
    """A "collection step" is a rollout, an "epoch" is the interval between tests, a "repetition" is an epoch."""

    name = "tianshou"
    library = "Tianshou PPO"
    version = "2.0.1"
    keys = (
        Key("num_training_envs", "num_envs", aliases=("num_train_envs",)),
        Key("collection_step_num_env_steps", "rollout_size", 2048, aliases=("step_per_collect",)),
        Key("batch_size", "minibatch_size", 64),
        Key("update_step_num_repetitions", "num_epochs", 1, aliases=("repeat_per_collect",)),
        Key("max_epochs", EXTRA, 100, aliases=("max_epoch",)),
        Key("epoch_num_steps", EXTRA, 30_000, aliases=("step_per_epoch",)),
        Key("buffer_size", EXTRA, _BUFFER),
        Key("lr", "learning_rate", 1e-3),
        Key("gamma", "gamma", 0.99, aliases=("discount_factor",)),
        Key("gae_lambda", "gae_lambda", 0.95),
        Key("eps_clip", "clip_range", 0.2),
        Key("ent_coef", "entropy_coef", 0.01),
        Key("vf_coef", "value_coef", 0.5),
        Key("max_grad_norm", "max_grad_norm"),
    )
    remainder = Remainder.MERGE
    remainder_detail = "adds the remainder to the last minibatch"
    rounds_up = True
    time_limit = TimeLimit.FINAL
    fixable = frozenset({"buffer_size"})
    notes = ("a buffer_size below the rollout size silently overwrites the oldest steps",)
    other_keys = frozenset({"max_batchsize", "num_test_envs"})

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        n = self.required(sizes, "num_envs")
        rollout = -(-self.required(sizes, "rollout_size") // n) * n  # rounded up to whole vector steps
        recipe = super().parse({**sizes, "rollout_size": rollout})
        epochs, steps = sizes.get("max_epochs"), sizes.get("epoch_num_steps")
        if not epochs or not steps:
            return recipe
        return replace(recipe, total_timesteps=epochs * steps, num_updates=epochs * -(-steps // rollout))

    def adapt(self, recipe: Recipe) -> Recipe:
        return replace(super().adapt(recipe), extra={"buffer_size": recipe.extra.get("buffer_size")})

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        buffer = max(recipe.extra.get("buffer_size") or _BUFFER, recipe.rollout_size)
        sizes = {**super().emit(recipe), "buffer_size": buffer}
        updates = recipe.num_updates
        if updates:
            interval = updates // largest_divisor(updates, _MOST_EPOCHS)
            sizes |= {"max_epochs": updates // interval, "epoch_num_steps": interval * recipe.rollout_size}
        return sizes
