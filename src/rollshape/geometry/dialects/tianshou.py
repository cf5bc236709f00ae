"""Tianshou 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rollshape.geometry.dialects.base import EXTRA, Dialect, Key, TimeLimit
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.divisors import divisors
from rollshape.geometry.minibatch import Remainder

_MOST_EPOCHS = 100
_BUFFER = 4096


class Tianshou(Dialect):
    """A "collection step" is the rollout, an "epoch" a stretch between tests, a "repetition" an epoch."""

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
    remainder_detail = "adds the rest to the last minibatch"
    rounds_up = True
    time_limit = TimeLimit.FINAL
    mendable = frozenset({"buffer_size"})
    notes = ("a buffer_size below the rollout overwrites its oldest steps without a word",)
    others = frozenset({"max_batchsize", "num_test_envs"})

    def hear(self, said: Mapping[str, Any]) -> Recipe:
        n = self.required(said, "num_envs")
        rollout = -(-self.required(said, "rollout_size") // n) * n  # a collection is rounded up to whole vector steps
        recipe = super().hear({**said, "rollout_size": rollout})
        stretches, steps = said.get("max_epochs"), said.get("epoch_num_steps")
        if not stretches or not steps:
            return recipe
        return replace(recipe, total_timesteps=stretches * steps, num_updates=stretches * -(-steps // rollout))

    def say(self, recipe: Recipe) -> dict[str, Any]:
        said = {**super().say(recipe), "buffer_size": max(_BUFFER, recipe.rollout_size)}
        updates = recipe.num_updates
        if updates:
            apart = next(d for d in divisors(updates) if d * _MOST_EPOCHS >= updates)
            said |= {"max_epochs": updates // apart, "epoch_num_steps": apart * recipe.rollout_size}
        return said
