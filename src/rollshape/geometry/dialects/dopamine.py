"""Dopamine's PPO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import Shuffle, TimeLimit
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.divisors import largest_divisor
from rollshape.geometry.minibatch import Remainder

_MOST_ITERATIONS = 500


class Dopamine(Dialect):
    """One environment; `update_period` is the rollout size, and the batch size of the replay buffer must equal it."""

    name = "dopamine"
    library = "Dopamine PPO"
    version = "4.1.2"
    keys = (
        Key("update_period", "num_steps", 2048),
        Key("batch_size", "minibatch_size", 64),
        Key("num_epochs", "num_epochs", 10),
        Key("num_iterations", EXTRA, 500),
        Key("training_steps", EXTRA, 2048),
        Key("ReplayBuffer.batch_size", EXTRA, whole=True),
        Key("learning_rate", "learning_rate", 3e-4),
        Key("gamma", "gamma", 0.99),
        Key("lambda_", "gae_lambda", 0.95),
        Key("epsilon", "clip_range", 0.2),
        Key("entropy_coefficient", "entropy_coef", 0.0),
        Key("vf_coefficient", "value_coef", 0.5, scale=0.5),
        Key("max_gradient_norm", "max_grad_norm", 0.5),
    )
    remainder = Remainder.REFUSE
    remainder_detail = "AssertionError: Batch size must divide number of states."
    shuffle = Shuffle.BLOCKS
    time_limit = TimeLimit.IGNORED
    schedule = "linear to zero (create_optimizer.anneal_learning_rate)"
    value_clip = "clipped (clip_critic_loss)"
    algorithm_keys = ("create_agent.agent_name", "agent_name")
    fixable = frozenset({"ReplayBuffer.batch_size"})
    notes = (
        "ReplayBuffer.batch_size samples are used per update; Dopamine does not check that this equals update_period",
        "create_optimizer.anneal_steps counts gradient steps and must be set by hand",
    )

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        if sizes.get("num_envs") not in (None, 1):
            raise RequestError("missing-key", "Dopamine runs one environment.", "Leave --num-envs out.")
        # The batch of the replay buffer is used, regardless of the update period.
        recipe = self.recipe(sizes, 1, sizes.get("ReplayBuffer.batch_size") or self.required(sizes, "num_steps"))
        iterations, steps = sizes.get("num_iterations"), sizes.get("training_steps")
        if not iterations or not steps:
            return recipe
        total = iterations * steps
        return replace(recipe, total_timesteps=total, num_updates=self.updates(total, recipe.rollout_size))

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        sizes = {**super().emit(recipe), "ReplayBuffer.batch_size": recipe.rollout_size}
        updates = recipe.num_updates
        if updates:
            interval = updates // largest_divisor(updates, _MOST_ITERATIONS)
            sizes |= {"num_iterations": updates // interval, "training_steps": interval * recipe.rollout_size}
        return sizes

    def adapt(self, recipe: Recipe) -> Recipe:
        return super().adapt(replace(recipe, num_envs=1, num_steps=recipe.rollout_size))
