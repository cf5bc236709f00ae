"""Stable-Baselines3 (PPO and A2C), RecurrentPPO of sb3-contrib, and sbx."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import Normalization, Shuffle, Switch, TimeLimit
from rollshape.geometry.dialects.keys import Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sharing import Recurrence
from rollshape.geometry.minibatch import Remainder

_KL_SLACK = 1.5  # an update stops if approx_kl exceeds this multiple of target_kl (ppo.py)


class SB3(Dialect):
    """`batch_size` is the minibatch size; the number of environments belongs to the env (`n_envs` in rl-zoo)."""

    name = "sb3"
    library = "Stable-Baselines3 PPO"
    version = "2.9.2"
    proof = "test_sb3.py"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("n_envs", "num_envs", 1),
        Key("n_steps", "num_steps", 2048),
        Key("batch_size", "minibatch_size", 64),
        Key("n_epochs", "num_epochs", 10),
        Key("n_timesteps", "total_timesteps", aliases=("total_timesteps",)),
        Key("learning_rate", "learning_rate", 3e-4),
        Key("gamma", "gamma", 0.99),
        Key("gae_lambda", "gae_lambda", 0.95),
        Key("clip_range", "clip_range", 0.2),
        Key("ent_coef", "entropy_coef", 0.0),
        Key("vf_coef", "value_coef", 0.5),
        Key("max_grad_norm", "max_grad_norm", 0.5),
        Key("target_kl", "target_kl", scale=_KL_SLACK),
    )
    remainder = Remainder.SHORT
    remainder_detail = "warns, then trains on a smaller last minibatch; a minibatch of one sample is not normalized"
    rounds_up = True
    time_limit = TimeLimit.FINAL
    algorithm_names: ClassVar[frozenset[str]] = frozenset({"ppo"})
    switches: ClassVar[tuple[Switch, ...]] = (
        Switch("normalize_advantage", "advantage normalization", {False: Normalization.OFF}),
    )

    def infer_algorithm(self, level: Mapping[str, Any]) -> tuple[str, str] | None:
        policy = level.get("policy")
        return ("recurrentppo", f"policy: {policy}") if "Lstm" in str(policy) else None

    def problem(self, recipe: Recipe) -> str:
        if recipe.refusal:
            return recipe.refusal
        if recipe.minibatch_size < 2 or recipe.rollout_size < 2:
            return "AssertionError: `batch_size` and `n_steps * n_envs` must be greater than 1"
        return ""

    def adapt(self, recipe: Recipe) -> Recipe:
        nearest = super().adapt(recipe)
        return nearest if nearest.minibatch_size > 1 else super().adapt(_with_two_samples(recipe))


def _with_two_samples(recipe: Recipe) -> Recipe:
    """Return the recipe with minibatches of two samples; a single sample cannot be normalized."""
    return replace(recipe, minibatch_size=min(2, recipe.rollout_size))


class SB3A2C(SB3):
    """One gradient step on the whole rollout: neither minibatches nor epochs; GAE with λ = 1 by default."""

    name = "sb3:a2c"
    library = "Stable-Baselines3 A2C"
    algo = "a2c"
    algorithm = "A2C"
    algorithm_names: ClassVar[frozenset[str]] = frozenset({"a2c"})
    keys: ClassVar[tuple[Key, ...]] = (
        Key("n_envs", "num_envs", 1),
        Key("n_steps", "num_steps", 5),
        Key("n_timesteps", "total_timesteps", aliases=("total_timesteps",)),
        Key("learning_rate", "learning_rate", 7e-4),
        Key("gamma", "gamma", 0.99),
        Key("gae_lambda", "gae_lambda", 1.0),
        Key("ent_coef", "entropy_coef", 0.0),
        Key("vf_coef", "value_coef", 0.5),
        Key("max_grad_norm", "max_grad_norm", 0.5),
    )
    remainder_detail = "has no minibatches"
    normalization = Normalization.OFF
    switches: ClassVar[tuple[Switch, ...]] = (
        Switch("normalize_advantage", "advantage normalization", {True: Normalization.ROLLOUT}),
    )
    unique_features = ("RMSprop (use_rms_prop)",)
    notes: ClassVar[tuple[str, ...]] = (
        "the optimizer is RMSprop unless use_rms_prop is false: a learning rate for Adam is not transferable",
    )

    def problem(self, recipe: Recipe) -> str:
        return recipe.refusal

    def adapt(self, recipe: Recipe) -> Recipe:
        return replace(self.with_split(recipe, recipe.rollout_size, 1, recipe.num_steps), num_epochs=1)


class SB3RecurrentPPO(SB3):
    """Minibatches are `batch_size` consecutive samples, environment after environment, cut anywhere and padded.

    Each epoch starts at a random sample. A short last minibatch is trained, except one of a single sample: the standard
    deviation of its advantage is NaN.
    """

    name = "sb3:recurrent_ppo"
    library = "sb3-contrib RecurrentPPO"
    algorithm = "RecurrentPPO"
    algorithm_names: ClassVar[frozenset[str]] = frozenset({"recurrentppo", "ppolstm"})
    keys: ClassVar[tuple[Key, ...]] = tuple(
        replace(key, default={"n_steps": 128, "batch_size": 128}.get(key.name, key.default)) for key in SB3.keys
    )
    remainder_detail = "trains on a smaller last minibatch; a minibatch of one sample makes the weights NaN"
    shuffle = Shuffle.ROTATED
    recurrence = Recurrence.PADDED

    def facts(self, config: Mapping[str, Any], level: tuple[str, ...]) -> dict[str, Any]:  # noqa: ARG002
        return {"recurrent": True}

    def problem(self, recipe: Recipe) -> str:
        if not recipe.refusal and self.epoch(recipe).last_minibatch_size == 1:
            return "the standard deviation of a single advantage is NaN, and so are the weights after that minibatch"
        return recipe.refusal

    def adapt(self, recipe: Recipe) -> Recipe:
        nearest = super().adapt(recipe)
        rollout, size = recipe.rollout_size, nearest.minibatch_size
        if self.epoch(nearest).last_minibatch_size > 1 or rollout < 2:
            return nearest
        size = next(near for near in range(size + 1, rollout + 1) if rollout % near != 1)
        return self.with_split(recipe, size, max(1, rollout // size), recipe.num_steps)


class SBX(SB3):
    """SB3 on JAX with the same constructor; `target_kl` adapts the learning rate instead of stopping the update."""

    name = "sbx"
    library = "sbx (SB3 on JAX) PPO"
    version = "0.28.0"
    keys: ClassVar[tuple[Key, ...]] = (*SB3.keys[:-1], Key("target_kl", "adaptive_kl"))
    notes: ClassVar[tuple[str, ...]] = (
        "actor and critic have separate optimizers, so the value coefficient has little effect",
    )
