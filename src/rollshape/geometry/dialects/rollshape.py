"""Rollshape itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.algorithms import RULES, Algo
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import TimeLimit
from rollshape.geometry.dialects.keys import EXTRA, OVERRIDE, Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.minibatch import Remainder
from rollshape.geometry.plan import plan

_MINIBATCH = ("minibatch_size", "num_minibatches")
_SIZES = ("num_envs", "num_steps", "rollout_size", *_MINIBATCH)
_ALGO = "algo"
_GIVEN = "sizes in the config"


class Rollshape(Dialect):
    """The flags of `rollshape plan` and `rollshape train`; missing sizes are planned."""

    name = "rollshape"
    library = "Rollshape"
    version = "0.1.0"
    keys = (
        Key(_ALGO, EXTRA, "ppo"),
        Key("num_envs", "num_envs"),
        Key("num_steps", "num_steps"),
        Key("rollout_size", "rollout_size"),
        Key("minibatch_size", "minibatch_size", "auto"),
        Key("num_minibatches", "num_minibatches"),
        Key("num_epochs", "num_epochs"),
        Key("total_timesteps", "total_timesteps"),
        Key("learning_rate", "learning_rate"),
        Key("gamma", "gamma"),
        Key("gae_lambda", "gae_lambda"),
        Key("clip_range", "clip_range"),
        Key("entropy_coef", "entropy_coef"),
        Key("value_coef", "value_coef"),
        Key("max_grad_norm", "max_grad_norm"),
        Key("target_kl", "target_kl"),
        Key("adaptive_kl", "adaptive_kl"),
    )
    remainder = Remainder.REFUSE
    remainder_detail = "{minibatch} does not divide the rollout size {rollout} (--on-remainder fix changes the sizes)"
    time_limit = TimeLimit.FINAL
    algorithm_keys = (_ALGO,)
    algorithm_names = Dialect.algorithm_names | {"ppoewma", "a2c", "reinforce"}

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        given = {name: sizes[name] for name in _SIZES if sizes.get(name) not in (None, "auto")}
        names = tuple(given)
        if OVERRIDE in sizes:  # what follows from other sizes is adjusted to the argument
            _drop_redundant(given)
        algo: Algo = sizes.get(_ALGO) or "ppo"
        epochs = {"num_epochs": sizes["num_epochs"]} if sizes.get("num_epochs") else {}
        size, count, refusal = None, given.get("num_minibatches"), ""
        try:
            result = plan(algo=algo, **given, **epochs)
        except RequestError as error:
            if error.rule not in ("divisibility", "rollout-split"):
                raise
            refusal = error.message.rstrip(".")
            shape = {name: value for name, value in given.items() if name not in _MINIBATCH}
            result = plan(algo=algo, **shape, **epochs, on_remainder="fix")
            size = given.get("minibatch_size") or (max(1, result.rollout_size // count) if count else None)
        all_sizes = {**sizes, "minibatch_size": size or result.minibatch_size, "num_epochs": result.num_epochs}
        recipe = replace(
            self.recipe(all_sizes, result.num_envs, result.num_steps, refusal), algo=algo, extra={_GIVEN: names}
        )
        stale = [name for name in names if name not in given and getattr(recipe, name) != sizes[name]]
        return replace(recipe, refusal=f"{stale[0]} {sizes[stale[0]]:,} contradicts them") if stale else recipe

    def adapt(self, recipe: Recipe) -> Recipe:
        kept = {_GIVEN: recipe.extra[_GIVEN]} if _GIVEN in recipe.extra else {}
        if RULES[recipe.algo].full_batch:
            whole = self.with_split(recipe, recipe.rollout_size, 1, recipe.num_steps)
            return replace(whole, num_epochs=1, extra=kept)
        return replace(super().adapt(recipe), extra=kept)

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        """Return the sizes that the config contains; a new config contains N, T and M, from which the rest follows."""
        names = ("num_envs", "num_steps", *recipe.extra.get(_GIVEN, ("minibatch_size",)))
        return {_ALGO: None if recipe.algo == "ppo" else recipe.algo} | {
            name: None if name in _SIZES and name not in names else value
            for name, value in super().emit(recipe).items()
        }


def _drop_redundant(sizes: dict[str, Any]) -> None:
    """Remove sizes that others determine: N·T if T is given, K if M is given."""
    for name, other in (("rollout_size", "num_steps"), ("num_minibatches", "minibatch_size")):
        if other in sizes:
            sizes.pop(name, None)
