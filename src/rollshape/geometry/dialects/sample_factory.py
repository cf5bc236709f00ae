"""Sample Factory in synchronous mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import Shuffle, TimeLimit
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sharing import Recurrence, find_outward
from rollshape.geometry.divisors import nearest_quotient
from rollshape.geometry.minibatch import Remainder


class SampleFactory(Dialect):
    """A dataset has `num_batches_per_epoch` × `batch_size` samples in whole trajectories of `rollout` steps.

    Trajectories are the sequences of a recurrent policy (`use_rnn`).
    """

    name = "sample_factory"
    library = "Sample Factory APPO, synchronous"
    version = "2.1.1"
    keys = (
        Key("num_workers", "workers"),
        Key("num_envs_per_worker", "envs_per_worker", 2),
        Key("worker_num_splits", EXTRA, 2),
        Key("rollout", "num_steps", 32),
        Key("batch_size", "minibatch_size", 1024),
        Key("num_batches_per_epoch", "num_minibatches", 1),
        Key("num_epochs", "num_epochs", 1),
        Key("train_for_env_steps", "total_timesteps"),
        Key("async_rl", EXTRA, True),
        Key("learning_rate", "learning_rate", 1e-4),
        Key("gamma", "gamma", 0.99),
        Key("gae_lambda", "gae_lambda", 0.95),
        Key("ppo_clip_ratio", "clip_range", 0.1),
        Key("exploration_loss_coeff", "entropy_coef", 0.003),
        Key("value_loss_coeff", "value_coef", 0.5),
        Key("max_grad_norm", "max_grad_norm", 4.0, off=0.0),
        Key("lr_schedule_kl_threshold", "adaptive_kl", 0.008),
        Key("lr_schedule", EXTRA, "constant"),
    )
    remainder = Remainder.REFUSE
    remainder_detail = "AssertionError at the first training step: experience_size % batch_size"
    shuffle = Shuffle.NONE
    recurrence = Recurrence.SEQUENCES
    time_limit = TimeLimit.TERMINAL
    value_clip = "always clipped (ppo_clip_value)"
    algorithm_names = Dialect.algorithm_names | {"appo"}
    other_keys = frozenset({"num_batches_to_accumulate", "num_epochs_to_accumulate"})
    notes = (
        "the ratio is clipped to [1/(1+ε), 1+ε], not to [1−ε, 1+ε]",
        "async_rl, the default, trains on data of older policies without fixed rollouts; it is disabled",
        "the budget includes skipped frames",
    )

    def facts(self, config: Mapping[str, Any], level: tuple[str, ...]) -> dict[str, Any]:
        return {"recurrent": find_outward(config, level, "use_rnn") is True}

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        n = sizes.get("num_envs") or self.required(sizes, "workers") * sizes["envs_per_worker"]
        window, size, count = sizes["num_steps"], sizes["minibatch_size"], sizes["num_minibatches"]
        refusal = ""
        if size * count % (n * window):
            refusal = (
                f"batch_size × num_batches_per_epoch = {size * count:,} is not a multiple of "
                f"{n:,} environments × {window:,} steps = {n * window:,}"
            )
        steps = nearest_quotient(size * count, n * window) * window
        recipe = replace(self.recipe(sizes, n, steps, refusal), gae_window=window)
        return replace(recipe, seq_length=window if recipe.recurrent else None)

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        return {
            **super().emit(recipe),
            "num_steps": recipe.gae_window,
            "workers": 1,
            "envs_per_worker": recipe.num_envs,
            "worker_num_splits": 2 if recipe.num_envs % 2 == 0 else 1,
            "async_rl": False,
        }

    def adapt(self, recipe: Recipe) -> Recipe:
        nearest = self.adapt_to_windows(recipe)
        return replace(nearest, seq_length=nearest.gae_window if recipe.recurrent else None)

    def updates(self, total: int, rollout: int) -> int:
        return total // rollout + 1  # stops when the budget is exceeded, not when it is reached

    def exact_budget(self, updates: int, rollout: int) -> int:
        return max(1, updates * rollout - 1)

    def problem(self, recipe: Recipe) -> str:
        if not recipe.refusal and recipe.minibatch_size % recipe.gae_window:
            size, window = recipe.minibatch_size, recipe.gae_window
            return f"batch_size {size} is not a multiple of rollout {window}: {self.remainder_detail}"
        return super().problem(recipe)

    def parse_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        hyper = super().parse_hyper(values)
        if not str(values.get("lr_schedule", "")).startswith("kl_adaptive"):
            hyper.pop("adaptive_kl", None)
        return hyper

    def emit_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        values = super().emit_hyper(hyper)
        return values | {"lr_schedule": "kl_adaptive_minibatch" if "adaptive_kl" in hyper else "constant"}
