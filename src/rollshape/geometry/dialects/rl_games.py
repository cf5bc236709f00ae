"""rl_games."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import EXTRA, Dialect, Key, Normalise, Shuffle, TimeLimit
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.minibatch import Remainder

SEQ_LENGTH = 4  # rl_games' default, checked against the rollout even without a recurrent network


class RlGames(Dialect):
    """`minibatch_size` must divide the rollout; `tau` is λ; `grad_norm` does nothing without `truncate_grads`."""

    name = "rl_games"
    library = "rl_games PPO"
    version = "1.6.5"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("num_actors", "num_envs"),
        Key("horizon_length", "num_steps"),
        Key("minibatch_size", "minibatch_size"),
        Key("minibatch_size_per_env", "minibatch_per_env"),
        Key("mini_epochs", "num_epochs"),
        Key("max_epochs", "num_updates"),
        Key("max_frames", "total_timesteps"),
        Key("seq_length", EXTRA, SEQ_LENGTH),
        Key("learning_rate", "learning_rate"),
        Key("gamma", "gamma"),
        Key("tau", "gae_lambda"),
        Key("e_clip", "clip_range"),
        Key("entropy_coef", "entropy_coef"),
        Key("critic_coef", "value_coef", scale=0.5),
        Key("grad_norm", "max_grad_norm"),
        Key("truncate_grads", EXTRA, False),
        Key("kl_threshold", "adaptive_kl"),
        Key("lr_schedule", EXTRA, "None"),
    )
    remainder = Remainder.REFUSE
    remainder_detail = (
        "ValueError: 'batch_size' ({rollout}) must be divisible by 'minibatch_size' ({minibatch}) "
        "(AssertionError in older versions)"
    )
    rounds_up = True
    rollout_name = "batch_size"
    shuffle = Shuffle.NONE
    normalise = Normalise.ROLLOUT
    time_limit = TimeLimit.CURRENT
    notes: ClassVar[tuple[str, ...]] = (
        "a multi-agent environment multiplies the rollout by its agents: count them as environments",
    )

    def hear(self, said: Mapping[str, Any]) -> Recipe:
        said = dict(said)
        n, per_env = self.required(said, "num_envs"), said.get("minibatch_per_env")
        if said.get("minibatch_size") is None:  # with both keys, minibatch_size wins
            if per_env is None:
                raise RequestError(
                    "missing-key",
                    "The rl_games config has neither minibatch_size nor minibatch_size_per_env.",
                    "Add minibatch_size; rollshape plan gives a legal one.",
                )
            said["minibatch_size"] = n * per_env
        self.required(said, "num_epochs")
        return super().hear(said)

    def with_budget(self, said: Mapping[str, Any], drafted: Recipe) -> Recipe:
        """Both limits may be set; the first that is reached ends the run. -1 means none."""
        limits = [
            super(RlGames, self).with_budget({concept: said[concept]}, drafted)
            for concept in ("num_updates", "total_timesteps")
            if said.get(concept) is not None
        ]
        return min(limits, key=lambda recipe: recipe.num_updates or 0, default=drafted)

    def say(self, recipe: Recipe) -> dict[str, Any]:
        said = {**super().say(recipe), "minibatch_per_env": None, "total_timesteps": None}
        return said | ({"seq_length": 1} if recipe.rollout_size % SEQ_LENGTH else {})

    def adapt(self, recipe: Recipe) -> Recipe:
        adapted = super().adapt(recipe)
        return replace(adapted, extra={"seq_length": 1}) if adapted.rollout_size % SEQ_LENGTH else adapted

    def problem(self, recipe: Recipe) -> str:
        refusal = super().problem(recipe)  # rl_games checks the minibatch first
        length = recipe.extra.get("seq_length") or SEQ_LENGTH
        if not refusal and recipe.rollout_size % length:
            return f"ValueError: Batch size must be divisible by sequence length ({recipe.rollout_size} % {length})"
        return refusal

    def hear_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        heard = super().hear_hyper(values)
        if not values.get("truncate_grads"):
            heard.pop("max_grad_norm", None)
        if values.get("lr_schedule") != "adaptive":
            heard.pop("adaptive_kl", None)
        return heard

    def say_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        said = super().say_hyper(hyper)
        said["truncate_grads"] = "max_grad_norm" in hyper
        if not said["truncate_grads"]:
            said["grad_norm"] = 1.0  # has no effect, but rl_games raises KeyError without it
        said["lr_schedule"] = "adaptive" if "kl_threshold" in said else "None"
        return said
