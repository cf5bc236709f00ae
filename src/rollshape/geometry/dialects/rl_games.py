"""rl_games."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd
from typing import Any, ClassVar

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import (
    CLIPPED,
    EXTRA,
    Dialect,
    Key,
    Normalization,
    Shuffle,
    Switch,
    TimeLimit,
)
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.minibatch import Remainder

_CENTRAL = "central_value_config.minibatch_size"
SEQ_LENGTH = 4  # default of rl_games, which checks it even without a recurrent network


class RlGames(Dialect):
    """`minibatch_size` must divide the rollout size; `tau` is λ; `grad_norm` has no effect without `truncate_grads`."""

    name = "rl_games"
    library = "rl_games PPO"
    version = "1.6.5"
    proof = "test_rl_games.py"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("num_actors", "num_envs"),
        Key("horizon_length", "num_steps"),
        Key("minibatch_size", "minibatch_size"),
        Key("minibatch_size_per_env", "minibatch_per_env"),
        Key("mini_epochs", "num_epochs"),
        Key("max_epochs", "num_updates"),
        Key("max_frames", "total_timesteps", aliases=("max_steps",)),
        Key("seq_length", EXTRA, SEQ_LENGTH),
        Key(_CENTRAL, EXTRA, whole=True),
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
        Key("value_bootstrap", EXTRA, True),
    )
    remainder = Remainder.REFUSE
    remainder_detail = (
        "ValueError: 'batch_size' ({rollout}) must be divisible by 'minibatch_size' ({minibatch}) "
        "(AssertionError in older versions); in multi-agent environments count each agent as an environment"
    )
    rounds_up = True
    stops_at_first = True
    fixable: ClassVar[frozenset[str]] = frozenset({"seq_length", _CENTRAL})
    rollout_name = "batch_size"
    shuffle = Shuffle.NONE
    normalization = Normalization.ROLLOUT
    time_limit = TimeLimit.CURRENT
    switches: ClassVar[tuple[Switch, ...]] = (
        Switch("value_bootstrap", "time limit", {True: TimeLimit.CURRENT, False: TimeLimit.TERMINAL}),
        Switch("clip_value", "value loss", {True: CLIPPED}),
        Switch("normalize_advantage", "advantage normalization", {False: Normalization.OFF}),
    )
    algorithm_keys = ("params.algo.name", "algo.name")
    algorithm_names: ClassVar[frozenset[str]] = Dialect.algorithm_names | {"a2cdiscrete", "a2ccontinuous"}
    notes: ClassVar[tuple[str, ...]] = (
        "a multi-agent environment multiplies the rollout size by its agents: count each agent as an environment",
        "2.0.0 (unreleased) has the same keys, sizes and rules; it also takes max_steps for max_frames (1.6.5 raises "
        "an error), and masks the reset steps of Gymnasium's next-step autoreset",
    )

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        sizes = dict(sizes)
        n, per_env = self.required(sizes, "num_envs"), sizes.get("minibatch_per_env")
        if sizes.get("minibatch_size") is None:  # if both keys are given, minibatch_size is used
            if per_env is None:
                raise RequestError(
                    "missing-key",
                    "The rl_games config has neither minibatch_size nor minibatch_size_per_env.",
                    "Add minibatch_size; rollshape plan computes a valid one.",
                )
            sizes["minibatch_size"] = n * per_env
        self.required(sizes, "num_epochs")
        return super().parse(sizes)

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        sizes = {**super().emit(recipe), "minibatch_per_env": None, "total_timesteps": None}
        sizes[self.prefix + "value_bootstrap"] = recipe.bootstraps
        extra = {"seq_length": self.extra(recipe, "seq_length") or SEQ_LENGTH}
        central = self.extra(recipe, _CENTRAL)
        if central:  # has minibatches of its own, which must divide the rollout, too
            extra[_CENTRAL] = recipe.minibatch_size if recipe.rollout_size % central else central
        return sizes | {self.prefix + name: value for name, value in extra.items()}

    def extra(self, recipe: Recipe, name: str) -> Any:
        """Return an extra value by its name without the prefix."""
        return recipe.extra.get(self.prefix + name)

    def adapt(self, recipe: Recipe) -> Recipe:
        """Adapt the minibatch, and reduce the sequence length so that it divides the rollout size."""
        length = gcd(self.extra(recipe, "seq_length") or SEQ_LENGTH, recipe.rollout_size)
        extra = {"seq_length": length, _CENTRAL: self.extra(recipe, _CENTRAL)}
        return replace(super().adapt(recipe), extra={self.prefix + name: value for name, value in extra.items()})

    def problem(self, recipe: Recipe) -> str:
        refusal = super().problem(recipe)  # rl_games checks the minibatch first
        length = self.extra(recipe, "seq_length") or SEQ_LENGTH
        if not refusal and recipe.rollout_size % length:
            return f"ValueError: Batch size must be divisible by sequence length ({recipe.rollout_size} % {length})"
        return refusal

    def parse_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        hyper = super().parse_hyper(values)
        if not values.get(self.prefix + "truncate_grads"):
            hyper.pop("max_grad_norm", None)
        if values.get(self.prefix + "lr_schedule") != "adaptive":
            hyper.pop("adaptive_kl", None)
        return hyper

    def emit_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        values = super().emit_hyper(hyper)
        values[self.prefix + "truncate_grads"] = "max_grad_norm" in hyper
        if "max_grad_norm" not in hyper:
            values[self.prefix + "grad_norm"] = 1.0  # no effect, but rl_games raises a KeyError without it
        values[self.prefix + "lr_schedule"] = "adaptive" if "adaptive_kl" in hyper else "None"
        return values
