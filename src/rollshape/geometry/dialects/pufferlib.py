"""PufferLib 3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd
from typing import Any

from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import CONSTANT_RATE, Shuffle, Switch, TimeLimit
from rollshape.geometry.dialects.keys import EXTRA, OVERRIDE, Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sharing import Ranks, Recurrence, find_outward
from rollshape.geometry.divisors import nearest_quotient
from rollshape.geometry.minibatch import Remainder, Split

_LARGEST_MICROBATCH = 32_768
_INNER, _LARGEST = "env.num_envs", "train.max_minibatch_size"


class PufferLib(Dialect):
    """Minibatches are whole segments of `bptt_horizon`, sampled by priority; `batch_size` is the rollout size.

    With torchrun, all sizes are those of one process, also `total_timesteps`. Segments are the sequences of a recurrent
    policy (`rnn_name`), so it has no further rule.
    """

    name = "pufferlib"
    library = "PufferLib PuffeRL"
    version = "3.0.0"
    layout = "dotted"
    keys = (
        Key("vec.num_envs", "num_envs", 2),
        Key(_INNER, EXTRA, 1),
        Key("train.batch_size", "rollout_size", "auto"),
        Key("train.bptt_horizon", "num_steps", 64),
        Key("train.minibatch_size", "minibatch_size", 8192),
        Key(_LARGEST, EXTRA, _LARGEST_MICROBATCH),
        Key("train.update_epochs", "num_epochs", 1),
        Key("train.total_timesteps", "total_timesteps", 10_000_000),
        Key("train.learning_rate", "learning_rate", 0.015),
        Key("train.gamma", "gamma", 0.995),
        Key("train.gae_lambda", "gae_lambda", 0.9),
        Key("train.clip_coef", "clip_range", 0.2),
        Key("train.ent_coef", "entropy_coef", 0.001),
        Key("train.vf_coef", "value_coef", 2.0, scale=0.5),
        Key("train.max_grad_norm", "max_grad_norm", 1.5),
    )
    remainder = Remainder.DROP
    remainder_detail = "samples floor(epochs × rollout / minibatch) minibatches; there is no full pass over the data"
    rounds_up = True
    ranks = Ranks.PER_RANK
    per_rank = Dialect.per_rank | {"total_timesteps"}
    recurrence = Recurrence.SEQUENCES
    shuffle = Shuffle.PRIORITY
    time_limit = TimeLimit.IGNORED
    schedule = "cosine to zero (train.anneal_lr)"
    value_clip = "clipped (train.vf_clip_coef)"
    switches = (Switch("train.anneal_lr", "learning-rate schedule", {False: CONSTANT_RATE}),)
    fixable = frozenset({_INNER, _LARGEST})
    notes = (
        "the default optimizer is Muon: a learning rate for Adam is not transferable",
        "the last step of a segment has no advantage; rewards are clipped to ±1",
    )

    def facts(self, config: Mapping[str, Any], level: tuple[str, ...]) -> dict[str, Any]:
        names = [find_outward(config, level, *path, "rnn_name") for path in ((), ("base",))]
        return {"recurrent": any(name not in (None, "None", "") for name in names)}

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        inner = sizes.get(_INNER) or 1
        n = sizes.get(OVERRIDE) or self.required(sizes, "num_envs") * inner
        window = self.required(sizes, "num_steps")
        configured = sizes.get("rollout_size")
        rollout = n * window if configured in (None, "auto") else configured
        refusal = ""
        if rollout % (n * window):
            refusal = f"batch_size {rollout:,} is not a multiple of {n:,} agents × bptt_horizon {window:,}"
        steps = nearest_quotient(rollout, n * window) * window
        recipe = replace(self.recipe(sizes, n, steps, refusal), gae_window=window)
        return replace(recipe, seq_length=window if recipe.recurrent else None)

    def problem(self, recipe: Recipe) -> str:
        if recipe.refusal:
            return recipe.refusal
        if recipe.minibatch_size > recipe.rollout_size:
            return f"APIUsageError: batch_size {recipe.rollout_size} must be >= minibatch_size {recipe.minibatch_size}"
        most, size = _largest_microbatch(recipe), recipe.minibatch_size // recipe.world_size
        if size > most and size % most:
            return f"APIUsageError: minibatch_size {size} % max_minibatch_size {most}"
        if size % recipe.gae_window:
            return f"APIUsageError: minibatch_size {size} % bptt_horizon {recipe.gae_window}"
        return ""

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        """Return the sizes; the agents per environment are reduced to a number that divides all agents."""
        inner = gcd(recipe.num_envs // recipe.world_size, recipe.extra.get(_INNER) or 1)
        most = _largest_microbatch(recipe)
        sizes = {**super().emit(recipe), "num_envs": recipe.num_envs // inner, "num_steps": recipe.gae_window}
        if recipe.extra.get(_INNER):
            sizes[_INNER] = inner
        return sizes if most == _LARGEST_MICROBATCH else sizes | {_LARGEST: most}

    def adapt(self, recipe: Recipe) -> Recipe:
        nearest, most = self.adapt_to_windows(recipe), _largest_microbatch(recipe)
        size = nearest.minibatch_size // recipe.world_size
        if size > most and size % most:
            most = size
        length = nearest.gae_window if recipe.recurrent else None
        return replace(nearest, seq_length=length, extra={_INNER: recipe.extra.get(_INNER), _LARGEST: most})

    def epoch(self, recipe: Recipe) -> Split:
        return Split(
            recipe.rollout_size, recipe.minibatch_size, recipe.num_minibatches, recipe.minibatch_size,
            dropped=recipe.rollout_size % recipe.minibatch_size,
        )  # fmt: skip

    def steps_per_update(self, recipe: Recipe) -> int:
        rollout, size = (n // recipe.world_size for n in (recipe.rollout_size, recipe.minibatch_size))
        micro = min(size, _largest_microbatch(recipe))
        return recipe.num_epochs * rollout // micro // max(1, size // micro)


def _largest_microbatch(recipe: Recipe) -> int:
    return recipe.extra.get(_LARGEST) or _LARGEST_MICROBATCH
