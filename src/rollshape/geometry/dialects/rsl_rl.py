"""RSL-RL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rollshape.geometry.dialects.base import (
    EXTRA,
    UNCLIPPED,
    Dialect,
    Key,
    Normalization,
    Shuffle,
    Switch,
    TimeLimit,
)
from rollshape.geometry.minibatch import Remainder


class RslRl(Dialect):
    """K minibatches, shuffled once; samples that do not fill a minibatch are never used."""

    name = "rsl_rl"
    library = "RSL-RL PPO"
    version = "5.5.1"
    proof = "test_rsl_rl.py"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("num_envs", "num_envs"),
        Key("num_steps_per_env", "num_steps"),
        Key("algorithm.num_mini_batches", "num_minibatches", 4),
        Key("algorithm.num_learning_epochs", "num_epochs", 5),
        Key("max_iterations", "num_updates", aliases=("num_learning_iterations",)),
        Key("algorithm.learning_rate", "learning_rate", 1e-3),
        Key("algorithm.gamma", "gamma", 0.99),
        Key("algorithm.lam", "gae_lambda", 0.95),
        Key("algorithm.clip_param", "clip_range", 0.2),
        Key("algorithm.entropy_coef", "entropy_coef", 0.01),
        Key("algorithm.value_loss_coef", "value_coef", 1.0),
        Key("algorithm.max_grad_norm", "max_grad_norm", 1.0),
        Key("algorithm.desired_kl", "adaptive_kl", 0.01),
        Key("algorithm.schedule", EXTRA, "adaptive"),
    )
    remainder = Remainder.DROP
    remainder_detail = "silently drops the last steps of the highest-numbered environments, in every update"
    shuffle = Shuffle.ONCE
    normalization = Normalization.ROLLOUT
    time_limit = TimeLimit.CURRENT
    value_clip = "clipped (use_clipped_value_loss)"
    switches: ClassVar[tuple[Switch, ...]] = (
        Switch("algorithm.use_clipped_value_loss", "value loss", {False: UNCLIPPED}),
    )
    algorithm_keys = ("algorithm.class_name", "algorithm_class_name", "runner.algorithm_class_name")
    notes: ClassVar[tuple[str, ...]] = (
        "continuous actions only",
        "the gradient norms of actor and critic are clipped separately",
    )

    def parse_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        hyper = super().parse_hyper(values)
        if values.get("algorithm.schedule", "adaptive") != "adaptive":
            hyper.pop("adaptive_kl", None)
        return hyper

    def emit_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        values = super().emit_hyper(hyper)
        return values | {"algorithm.schedule": "adaptive" if "adaptive_kl" in hyper else "fixed"}
