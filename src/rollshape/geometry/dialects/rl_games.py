"""rl_games."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd
from typing import Any, ClassVar

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import EXTRA, Dialect, Key, Normalise, Shuffle, TimeLimit
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.minibatch import Remainder

_CENTRAL = "central_value_config.minibatch_size"
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
        Key("central_value_config.minibatch_size", EXTRA),
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
        "(AssertionError in older versions); several agents multiply the rollout, so count them as environments"
    )
    rounds_up = True
    mendable: ClassVar[frozenset[str]] = frozenset({"seq_length", _CENTRAL})
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
        mended = {"seq_length": self.extra(recipe, "seq_length") or SEQ_LENGTH}
        if self.extra(recipe, _CENTRAL):
            mended[_CENTRAL] = recipe.minibatch_size
        return said | {self.prefix + name: value for name, value in mended.items()}

    def extra(self, recipe: Recipe, name: str) -> Any:
        return recipe.extra.get(self.prefix + name)

    def adapt(self, recipe: Recipe) -> Recipe:
        """The sequence length gives way, too: what is left of it that divides the rollout."""
        length = gcd(self.extra(recipe, "seq_length") or SEQ_LENGTH, recipe.rollout_size)
        kept = {"seq_length": length, _CENTRAL: self.extra(recipe, _CENTRAL)}
        return replace(super().adapt(recipe), extra={self.prefix + name: value for name, value in kept.items()})

    def problem(self, recipe: Recipe) -> str:
        refusal = super().problem(recipe)  # rl_games checks the minibatch first
        length = self.extra(recipe, "seq_length") or SEQ_LENGTH
        if not refusal and recipe.rollout_size % length:
            return f"ValueError: Batch size must be divisible by sequence length ({recipe.rollout_size} % {length})"
        return refusal

    def hear_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        heard = super().hear_hyper(values)
        if not values.get(self.prefix + "truncate_grads"):
            heard.pop("max_grad_norm", None)
        if values.get(self.prefix + "lr_schedule") != "adaptive":
            heard.pop("adaptive_kl", None)
        return heard

    def say_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        said = super().say_hyper(hyper)
        said[self.prefix + "truncate_grads"] = "max_grad_norm" in hyper
        if "max_grad_norm" not in hyper:
            said[self.prefix + "grad_norm"] = 1.0  # has no effect, but rl_games raises KeyError without it
        said[self.prefix + "lr_schedule"] = "adaptive" if "adaptive_kl" in hyper else "None"
        return said
