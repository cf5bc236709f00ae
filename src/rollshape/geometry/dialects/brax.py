"""Brax PPO, and MuJoCo Playground's configs for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import Shuffle, TimeLimit
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sharing import Ranks
from rollshape.geometry.divisors import nearest_quotient
from rollshape.geometry.minibatch import Remainder


class Brax(Dialect):
    """`batch_size` is a number of trajectories of `unroll_length`: M = batch_size·unroll_length, whatever num_envs is.

    Each environment unrolls batch_size·num_minibatches/num_envs times per update; GAE ends with each unroll. Devices
    share num_envs and batch_size, so their number must divide both.
    """

    name = "brax"
    library = "Brax PPO (and MuJoCo Playground)"
    version = "0.14.2"
    keys = (
        Key("num_envs", "num_envs", 1),
        Key("unroll_length", "num_steps", 10),
        Key("batch_size", "trajectories", 32),
        Key("num_minibatches", "num_minibatches", 16),
        Key("num_updates_per_batch", "num_epochs", 2),
        Key("num_timesteps", "total_timesteps"),
        Key("action_repeat", EXTRA, 1),
        Key("num_evals", EXTRA, 1),
        Key("num_resets_per_eval", EXTRA, 0),
        Key("learning_rate", "learning_rate", 1e-4),
        Key("discounting", "gamma", 0.9),
        Key("gae_lambda", "gae_lambda", 0.95),
        Key("clipping_epsilon", "clip_range", 0.3),
        Key("entropy_cost", "entropy_coef", 1e-4),
        Key("vf_loss_coefficient", "value_coef", 0.5, scale=0.5),
        Key("max_grad_norm", "max_grad_norm"),
        Key("desired_kl", "adaptive_kl", 0.01),
        Key("learning_rate_schedule", EXTRA),
    )
    remainder = Remainder.REFUSE
    remainder_detail = "AssertionError: batch_size * num_minibatches % num_envs"
    rounds_up = True
    shuffle = Shuffle.TRAJECTORIES
    time_limit = TimeLimit.MASKED
    ranks = Ranks.GLOBAL
    unique_features = ("action_repeat and num_resets_per_eval",)
    other_keys = frozenset({"num_eval_envs", "episode_length"})
    notes = ("GAE is recomputed for every minibatch with the current critic",)

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        n, window = self.required(sizes, "num_envs"), self.required(sizes, "num_steps")
        trajectories, count = sizes["trajectories"], sizes["num_minibatches"]
        refusal = ""
        if trajectories * count % n:
            refusal = f"AssertionError: batch_size * num_minibatches % num_envs ({trajectories} * {count} % {n})"
        steps = nearest_quotient(trajectories * count, n) * window
        recipe = self.recipe({**sizes, "minibatch_size": trajectories * window}, n, steps, refusal)
        recipe = replace(recipe, gae_window=window, num_minibatches=count)
        total = sizes.get("total_timesteps")
        if total is None:
            return recipe
        # Evaluations and resets divide the run into parts, each rounded up (train.py).
        parts = max((sizes.get("num_evals") or 0) - 1, 1) * max(sizes.get("num_resets_per_eval") or 0, 1)
        step = recipe.rollout_size * (sizes.get("action_repeat") or 1)
        return replace(recipe, total_timesteps=total, num_updates=-(-total // (parts * step)) * parts)

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        return {
            **super().emit(recipe),
            "num_steps": recipe.gae_window,
            "trajectories": recipe.minibatch_size // recipe.gae_window,
        }

    def adapt(self, recipe: Recipe) -> Recipe:
        return self.adapt_to_windows(recipe)

    def problem(self, recipe: Recipe) -> str:
        trajectories = recipe.minibatch_size // recipe.gae_window
        if not recipe.refusal and trajectories % recipe.world_size:
            return f"TypeError: batch_size {trajectories} cannot be divided among {recipe.world_size} devices"
        return recipe.refusal

    def parse_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        hyper = super().parse_hyper(values)
        if values.get("learning_rate_schedule") != "ADAPTIVE_KL":
            hyper.pop("adaptive_kl", None)
        return hyper

    def emit_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        values = super().emit_hyper(hyper)
        return values | ({"learning_rate_schedule": "ADAPTIVE_KL"} if "desired_kl" in values else {})
