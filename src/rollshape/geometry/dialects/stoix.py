"""Stoix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd
from typing import Any

from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import CONSTANT_RATE, LINEAR_RATE, Normalization, Switch, TimeLimit
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sharing import Ranks, Recurrence, find_outward
from rollshape.geometry.divisors import largest_divisor
from rollshape.geometry.minibatch import Remainder

_EVALUATIONS = 20
_SLICES, _CHUNK = "arch.update_batch_size", "system.recurrent_chunk_size"


class Stoix(Dialect):
    """Hydra keys; the number of updates is rounded down to a multiple of the number of evaluations.

    `total_num_envs` is divided among all devices, and on each among `update_batch_size` slices, which have minibatches
    of their own; gradients are averaged. rec_ppo (`system_name`, or a key `recurrent_chunk_size`) trains on chunks of
    `recurrent_chunk_size` steps, or on whole environments if it is null.
    """

    name = "stoix"
    library = "Stoix ff_ppo and rec_ppo (Anakin)"
    version = "2026-03"
    layout = "dotted"
    keys = (
        Key("arch.total_num_envs", "num_envs", 1024),
        Key("system.rollout_length", "num_steps", 128),
        Key("system.num_minibatches", "num_minibatches", 16),
        Key("system.epochs", "num_epochs", 4),
        Key("arch.total_timesteps", "total_timesteps", 10_000_000),
        Key("arch.num_updates", "num_updates"),
        Key("arch.num_evaluation", EXTRA, _EVALUATIONS),
        Key(_SLICES, EXTRA, 1),
        Key(_CHUNK, EXTRA, whole=True),
        Key("system.actor_lr", "learning_rate", 3e-4),
        Key("system.critic_lr", EXTRA, 3e-4),
        Key("system.gamma", "gamma", 0.99),
        Key("system.gae_lambda", "gae_lambda", 0.95),
        Key("system.clip_eps", "clip_range", 0.2),
        Key("system.ent_coef", "entropy_coef", 0.01),
        Key("system.vf_coef", "value_coef", 0.5, scale=0.5),
        Key("system.max_grad_norm", "max_grad_norm", 0.5),
    )
    remainder = Remainder.REFUSE
    remainder_detail = "TypeError: cannot reshape array of {rollout} samples"
    normalization = Normalization.ROLLOUT
    time_limit = TimeLimit.FINAL
    schedule = "linear to zero"
    ranks = Ranks.GLOBAL
    recurrence = Recurrence.SEQUENCES
    fixable = frozenset({_CHUNK, _SLICES})
    value_clip = "always clipped"
    switches = (
        Switch("system.decay_learning_rates", "learning-rate schedule", {True: LINEAR_RATE, False: CONSTANT_RATE}),
    )
    section_files = {"arch": "configs/arch/anakin.yaml", "system": "configs/system/ppo/ff_ppo.yaml"}  # noqa: RUF012
    algorithm_keys = ("system.system_name", "system_name")
    algorithm_names = Dialect.algorithm_names | {"dpo", "ppopenalty"}
    notes = ("actor and critic have separate optimizers, so the value coefficient has little effect",)

    def facts(self, config: Mapping[str, Any], level: tuple[str, ...]) -> dict[str, Any]:
        sections: tuple[tuple[str, ...], ...] = ((), ("system",))
        names = [find_outward(config, level, *section, "system_name") for section in sections]
        chunks = [find_outward(config, level, *section, "recurrent_chunk_size", missing="") for section in sections]
        return {"recurrent": any(chunk != "" for chunk in chunks) or any(str(n).startswith("rec_") for n in names)}

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        sizes = dict(sizes)
        sizes["seq_length"] = sizes.get("seq_length") or sizes.get(_CHUNK)
        if sizes.get("total_timesteps") is not None:
            sizes["num_updates"] = None  # total_timesteps has priority
        recipe = super().parse(sizes)
        if recipe.num_updates is None:
            return recipe
        evaluations = sizes.get("arch.num_evaluation") or _EVALUATIONS
        return replace(recipe, num_updates=recipe.num_updates // evaluations * evaluations)

    def problem(self, recipe: Recipe) -> str:
        parts, n = self._parts(recipe), recipe.num_envs
        if n % parts:
            return (
                f"AssertionError: total_num_envs ({n}) must be divisible by num_devices * update_batch_size = {parts}"
            )
        return super().problem(replace(recipe, world_size=parts))

    def adapt(self, recipe: Recipe) -> Recipe:
        slices = gcd(recipe.extra.get(_SLICES) or 1, recipe.num_envs // recipe.world_size)
        nearest = super().adapt(replace(recipe, world_size=recipe.world_size * slices))
        return replace(nearest, world_size=recipe.world_size, extra={_SLICES: slices, _CHUNK: recipe.extra.get(_CHUNK)})

    def _parts(self, recipe: Recipe) -> int:
        """Return the parts of the rollout that have minibatches of their own: slices on all devices."""
        return recipe.world_size * (recipe.extra.get(_SLICES) or 1)

    def least_budget(self, recipe: Recipe) -> int:
        return recipe.rollout_size * (recipe.extra.get("arch.num_evaluation") or _EVALUATIONS)

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        sizes = {**super().emit(recipe), "num_updates": None}
        if recipe.extra.get(_SLICES):
            sizes[_SLICES] = recipe.extra[_SLICES]
        if recipe.seq_length and (recipe.extra.get(_CHUNK) or recipe.seq_length != recipe.num_steps):
            sizes[_CHUNK] = recipe.seq_length
        if recipe.num_updates:
            sizes["arch.num_evaluation"] = largest_divisor(recipe.num_updates, _EVALUATIONS)
        return sizes

    def emit_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        values = super().emit_hyper(hyper)
        return values | ({"system.critic_lr": values["system.actor_lr"]} if "system.actor_lr" in values else {})
