"""skrl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rollshape.geometry.dialects.base import (
    EXTRA,
    Dialect,
    Key,
    Normalization,
    Switch,
    TimeLimit,
    check_range,
    is_number,
)
from rollshape.geometry.minibatch import Remainder
from rollshape.geometry.values import plain_scalar

_ADAPTIVE = "KLAdaptiveLR"
_ADAPTIVE_DEFAULT = 0.008
_THRESHOLD = Key("agent.learning_rate_scheduler_kwargs.kl_threshold", "adaptive_kl", _ADAPTIVE_DEFAULT)


class Skrl(Dialect):
    """`timesteps` counts vector steps; since 2.1 a remainder is distributed over the minibatches."""

    name = "skrl"
    library = "skrl PPO (torch)"
    version = "2.1.1"
    proof = "test_skrl.py"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("num_envs", "num_envs"),
        Key("agent.rollouts", "num_steps", 16),
        Key("agent.mini_batches", "num_minibatches", 2),
        Key("agent.learning_epochs", "num_epochs", 8),
        Key("trainer.timesteps", "vector_steps"),
        Key("agent.learning_rate", "learning_rate", 1e-3),
        Key("agent.discount_factor", "gamma", 0.99),
        Key("agent.gae_lambda", "gae_lambda", 0.95, aliases=("lambda",)),
        Key("agent.ratio_clip", "clip_range", 0.2),
        Key("agent.entropy_loss_scale", "entropy_coef", 0.0),
        Key("agent.value_loss_scale", "value_coef", 2.5),
        Key("agent.grad_norm_clip", "max_grad_norm", 0.5, off=0.0),
        Key("agent.kl_threshold", "target_kl", 0.0, off=0.0),
        Key("agent.learning_rate_scheduler", EXTRA),
        Key("agent.learning_rate_scheduler_kwargs", EXTRA),
    )
    remainder = Remainder.BALANCE
    remainder_detail = "distributes the remainder: the first minibatches are one sample larger (2.0 and older drop it)"
    normalization = Normalization.ROLLOUT
    time_limit = TimeLimit.IGNORED
    value_clip = "clipped (value_clip)"
    switches: ClassVar[tuple[Switch, ...]] = (
        Switch("agent.time_limit_bootstrap", "time limit", {True: TimeLimit.CURRENT, False: TimeLimit.IGNORED}),
    )
    algorithm_keys = ("agent.class", "class")
    algorithm_names: ClassVar[frozenset[str]] = Dialect.algorithm_names | {"ippo", "mappo", "rpo"}
    notes: ClassVar[tuple[str, ...]] = (
        "memory_size must equal rollouts; skrl does not check this",
        "kl_threshold only stops the current epoch",
        "before 2.1, minibatches are contiguous blocks without shuffling",
    )

    def parse_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        hyper = super().parse_hyper(values)
        if str(values.get("agent.learning_rate_scheduler", "")).endswith(_ADAPTIVE):
            options = values.get("agent.learning_rate_scheduler_kwargs")
            chosen = plain_scalar(options.get(_THRESHOLD.leaf)) if isinstance(options, Mapping) else None
            hyper["adaptive_kl"] = (
                check_range(_THRESHOLD, chosen) if is_number(chosen) and chosen else _ADAPTIVE_DEFAULT
            )
        return hyper

    def emit_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        values = super().emit_hyper(hyper)
        if "adaptive_kl" in hyper:
            values["agent.learning_rate_scheduler"] = _ADAPTIVE
            values["agent.learning_rate_scheduler_kwargs"] = {"kl_threshold": hyper["adaptive_kl"]}
        return values
