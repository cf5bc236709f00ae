"""Brax PPO, and MuJoCo Playground's configs for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rollshape.geometry.dialects.base import EXTRA, Dialect, Key, Shuffle, TimeLimit
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.minibatch import Remainder


class Brax(Dialect):
    """`batch_size` counts trajectories of `unroll_length`: M = batch_size·unroll_length, and num_envs is not in it.

    An environment unrolls batch_size·num_minibatches/num_envs times an update; GAE ends at each unroll.
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
    peculiar = ("action_repeat and num_resets_per_eval",)
    others = frozenset({"num_eval_envs", "episode_length"})
    notes = ("GAE is recomputed for every minibatch with the current critic",)

    def hear(self, said: Mapping[str, Any]) -> Recipe:
        n, window = self.required(said, "num_envs"), self.required(said, "num_steps")
        trajectories, count = said["trajectories"], said["num_minibatches"]
        refusal = ""
        if trajectories * count % n:
            refusal = f"AssertionError: batch_size * num_minibatches % num_envs ({trajectories} * {count} % {n})"
        steps = max(1, round(trajectories * count / n)) * window
        drafted = self.recipe({**said, "minibatch_size": trajectories * window}, n, steps, refusal)
        drafted = replace(drafted, gae_window=window, num_minibatches=count)
        total = said.get("total_timesteps")
        if total is None:
            return drafted
        # Evaluations and resets cut the run into pieces, each rounded up (train.py).
        pieces = max((said.get("num_evals") or 0) - 1, 1) * max(said.get("num_resets_per_eval") or 0, 1)
        step = drafted.rollout_size * (said.get("action_repeat") or 1)
        return replace(drafted, total_timesteps=total, num_updates=-(-total // (pieces * step)) * pieces)

    def say(self, recipe: Recipe) -> dict[str, Any]:
        return {
            **super().say(recipe),
            "num_steps": recipe.gae_window,
            "trajectories": recipe.minibatch_size // recipe.gae_window,
        }

    def adapt(self, recipe: Recipe) -> Recipe:
        return self.adapted_to_windows(recipe)

    def problem(self, recipe: Recipe) -> str:
        return recipe.refusal

    def hear_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        heard = super().hear_hyper(values)
        if values.get("learning_rate_schedule") != "ADAPTIVE_KL":
            heard.pop("adaptive_kl", None)
        return heard

    def say_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        said = super().say_hyper(hyper)
        return said | ({"learning_rate_schedule": "ADAPTIVE_KL"} if "desired_kl" in said else {})
