"""CleanRL, and the PPO of ManiSkill, which is based on it."""

from __future__ import annotations

from typing import ClassVar

from rollshape.geometry.dialects.base import (
    CLIPPED,
    CONSTANT_RATE,
    LINEAR_RATE,
    UNCLIPPED,
    Dialect,
    Key,
    Normalization,
    Switch,
    TimeLimit,
)
from rollshape.geometry.minibatch import Remainder


class CleanRL(Dialect):
    """`num_minibatches` is configured; `batch_size` and `minibatch_size` are derived (setting them has no effect)."""

    name = "cleanrl"
    library = "CleanRL ppo.py"
    version = "2.0.0b1"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("num_envs", "num_envs", 4),
        Key("num_steps", "num_steps", 128),
        Key("num_minibatches", "num_minibatches", 4),
        Key("update_epochs", "num_epochs", 4),
        Key("total_timesteps", "total_timesteps", 500_000),
        Key("learning_rate", "learning_rate", 2.5e-4),
        Key("gamma", "gamma", 0.99),
        Key("gae_lambda", "gae_lambda", 0.95),
        Key("clip_coef", "clip_range", 0.2),
        Key("ent_coef", "entropy_coef", 0.01),
        Key("vf_coef", "value_coef", 0.5, scale=0.5),
        Key("max_grad_norm", "max_grad_norm", 0.5),
        Key("target_kl", "target_kl"),
    )
    remainder = Remainder.SHORT
    remainder_detail = "trains on smaller additional minibatches; a minibatch of one sample makes the weights NaN"
    time_limit = TimeLimit.TERMINAL
    schedule: ClassVar[str] = "linear to zero (anneal_lr)"
    value_clip: ClassVar[str] = "clipped (clip_vloss)"
    switches: ClassVar[tuple[Switch, ...]] = (
        Switch("anneal_lr", "learning-rate schedule", {True: LINEAR_RATE, False: CONSTANT_RATE}),
        Switch("clip_vloss", "value loss", {True: CLIPPED, False: UNCLIPPED}),
        Switch("norm_adv", "advantage normalization", {False: Normalization.OFF}),
    )
    algorithm_hints = ("exp_name",)
    algorithm_names: ClassVar[frozenset[str]] = Dialect.algorithm_names | {"rpo"}
    other_keys = frozenset({"batch_size", "minibatch_size", "num_iterations"})
    notes: ClassVar[tuple[str, ...]] = ("target_kl is checked once per epoch, after the last step",)


class ManiSkill(CleanRL):
    """The keys of CleanRL; V of the final observation is added at every end of an episode, also at terminations."""

    name = "maniskill"
    library = "ManiSkill ppo.py"
    version = "2026-03"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("num_envs", "num_envs", 512),
        Key("num_steps", "num_steps", 50),
        Key("num_minibatches", "num_minibatches", 32),
        Key("update_epochs", "num_epochs", 4),
        Key("total_timesteps", "total_timesteps", 10_000_000),
        Key("learning_rate", "learning_rate", 3e-4),
        Key("gamma", "gamma", 0.8),
        Key("gae_lambda", "gae_lambda", 0.9),
        Key("clip_coef", "clip_range", 0.2),
        Key("ent_coef", "entropy_coef", 0.0),
        Key("vf_coef", "value_coef", 0.5, scale=0.5),
        Key("max_grad_norm", "max_grad_norm", 0.5),
        Key("target_kl", "target_kl", 0.1, off=None),
    )
    time_limit = TimeLimit.FINAL
    schedule = Dialect.schedule
    value_clip = Dialect.value_clip
    other_keys = CleanRL.other_keys | {"num_eval_envs", "num_eval_steps"}
    notes: ClassVar[tuple[str, ...]] = ("success and failure bootstrap like a time limit",)
