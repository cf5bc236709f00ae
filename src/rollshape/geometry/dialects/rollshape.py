"""Rollshape's own words."""

from __future__ import annotations

from rollshape.geometry.dialects.base import Dialect, Key, TimeLimit
from rollshape.geometry.minibatch import Remainder


class Rollshape(Dialect):
    """The flags of `rollshape plan` and `rollshape train`."""

    name = "rollshape"
    library = "Rollshape"
    version = "0.1.0"
    keys = (
        Key("num_envs", "num_envs"),
        Key("num_steps", "num_steps"),
        Key("minibatch_size", "minibatch_size"),
        Key("num_epochs", "num_epochs", 4),
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
    remainder_detail = "the rollout of {rollout} does not divide by {minibatch} (--on-remainder fix repairs it)"
    time_limit = TimeLimit.FINAL
    others = frozenset({"rollout_size", "num_minibatches"})
