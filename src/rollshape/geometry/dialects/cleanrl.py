"""CleanRL, and the PPO of ManiSkill, which is based on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import (
    CLIPPED,
    CONSTANT_RATE,
    LINEAR_RATE,
    UNCLIPPED,
    Normalization,
    Switch,
    TimeLimit,
)
from rollshape.geometry.dialects.keys import Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sharing import Ranks, Recurrence, find_outward
from rollshape.geometry.minibatch import Remainder
from rollshape.geometry.values import whole_number


class CleanRL(Dialect):
    """`num_minibatches` is configured; `batch_size` and `minibatch_size` are derived (setting them has no effect).

    ppo_atari_lstm.py (`--recurrent`, or `exp_name: ppo_atari_lstm`) trains on whole environments.
    """

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
    recurrence = Recurrence.ENVIRONMENTS
    notes: ClassVar[tuple[str, ...]] = ("target_kl is checked once per epoch, after the last step",)

    def facts(self, config: Mapping[str, Any], level: tuple[str, ...]) -> dict[str, Any]:
        if self.ranks is Ranks.ONE and find_outward(config, level, "local_num_envs") is not None:
            raise RequestError(
                "other-dialect",
                "local_num_envs belongs to CleanRL's ppo_atari_multigpu.py.",
                "Use --from cleanrl_multigpu (or --dialect cleanrl_multigpu).",
            )
        return {"recurrent": "lstm" in str(find_outward(config, level, "exp_name") or "")}

    def refuses_remainder(self, recipe: Recipe) -> bool:
        return recipe.recurrent

    def sequence_problem(self, recipe: Recipe) -> str:
        envs, count = recipe.num_envs // recipe.world_size, recipe.num_minibatches
        if recipe.recurrent and envs % count:
            return f"AssertionError: args.num_envs % args.num_minibatches == 0 ({envs} % {count})"
        return ""


class CleanRLMultiGPU(CleanRL):
    """`local_num_envs` is per process, `num_minibatches` the same in all; `num_envs` and `batch_size` are derived."""

    name = "cleanrl_multigpu"
    library = "CleanRL ppo_atari_multigpu.py"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("local_num_envs", "num_envs", 8),
        *(key for key in CleanRL.keys if key.concept not in ("num_envs", "total_timesteps", "clip_range")),
        Key("total_timesteps", "total_timesteps", 10_000_000),
        Key("clip_coef", "clip_range", 0.1),
    )
    ranks = Ranks.PER_RANK
    recurrence = Recurrence.NONE
    other_keys = CleanRL.other_keys | {"num_envs", "local_batch_size", "local_minibatch_size"}

    def facts(self, config: Mapping[str, Any], level: tuple[str, ...]) -> dict[str, Any]:
        world = find_outward(config, level, "world_size")  # derived from the launcher: 0 in the script's defaults
        return {"world_size": whole_number("world_size", world, least=0) or None} if world is not None else {}


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
    recurrence = Recurrence.NONE
    other_keys = CleanRL.other_keys | {"num_eval_envs", "num_eval_steps"}
    notes: ClassVar[tuple[str, ...]] = ("success and failure bootstrap like a time limit",)
