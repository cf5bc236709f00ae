"""RLlib PPO, new API stack and old names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import EXTRA, Dialect, Key, Normalise, Shuffle, TimeLimit
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.minibatch import Remainder, Split

DEFAULT_BATCH = 4000
TOLERANCE = 0.10
_WHOLE = "whole rollout"  # said as null; a minibatch_size of the rollout would wrap, for rows outnumber samples


class RLlib(Dialect):
    """Every minibatch has exactly M rows; the last of an epoch is filled from the next one.

    The learner adds one masked row for each chunk of an episode, so a rollout of B from N environments has B + N rows
    where no episode ends, and an update makes ⌈E·rows/M⌉ steps. An episode that ends adds a row, unless its environment
    has no step of the next one yet; while one environment resets, the others may make up to N − 1 steps more.
    """

    name = "rllib"
    library = "RLlib PPO (new API stack)"
    version = "2.60.0"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("num_env_runners", "workers", 2),
        Key("num_envs_per_env_runner", "envs_per_worker", 1),
        Key("rollout_fragment_length", EXTRA, "auto"),
        Key("train_batch_size_per_learner", "rollout_size", DEFAULT_BATCH, aliases=("train_batch_size",)),
        Key("num_learners", EXTRA, 0),
        Key("minibatch_size", "minibatch_size", 128, off=None),
        Key("num_epochs", "num_epochs", 30),
        Key("training_iteration", "num_updates"),
        Key("lr", "learning_rate", 5e-5),
        Key("gamma", "gamma", 0.99),
        Key("lambda_", "gae_lambda", 1.0, aliases=("lambda",)),
        Key("clip_param", "clip_range", 0.3),
        Key("entropy_coeff", "entropy_coef", 0.0),
        Key("vf_loss_coeff", "value_coef", 1.0),
        Key("grad_clip", "max_grad_norm"),
        Key("use_kl_loss", EXTRA, True),
        Key("vf_clip_param", EXTRA, 10.0),
    )
    remainder = Remainder.WRAP
    remainder_detail = "fills the last minibatch of an epoch with samples of the next"
    shuffle = Shuffle.AFTER_FIRST
    normalise = Normalise.ROLLOUT
    time_limit = TimeLimit.FINAL
    peculiar = ("its KL penalty (use_kl_loss, kl_coeff)", "no gradient of value errors above vf_clip_param")
    others = frozenset({"num_env_steps_sampled_lifetime", "kl_coeff", "kl_target"})
    notes: ClassVar[tuple[str, ...]] = (
        "the number of gradient steps grows by chance: every episode that ends adds a masked row",
        "a squared value error above vf_clip_param gets no gradient; written as 1e10, out of the way",
        "its KL penalty is switched off (use_kl_loss: false), for no other library has one",
    )

    def hear(self, said: Mapping[str, Any]) -> Recipe:
        n = said.get("num_envs") or max(1, said["workers"]) * said["envs_per_worker"]
        learners = max(1, said.get("num_learners") or 1)
        asked = self.required(said, "rollout_size") * learners
        fragment = said.get("rollout_fragment_length", "auto")
        if fragment in ("auto", None):
            window = t = -(-asked // n)
        else:
            window = int(fragment) or 1
            t = -(-asked // (n * window)) * window
        size, refusal = said.get("minibatch_size"), ""
        if n * t > asked * (1 + TOLERANCE) and fragment not in ("auto", None):
            refusal = f"ValueError: {n:,} environments × {window:,} steps reach {n * t:,}, over 10 % above {asked:,}"
        elif size is not None and size * learners > asked:
            refusal = (
                f"ValueError: minibatch_size ({size}) must be <= train_batch_size_per_learner ({asked // learners})"
            )
        said = {**said, "minibatch_size": size and size * learners, "num_minibatches": 1}
        recipe = self.recipe(said, n, t, refusal)
        extra = {_WHOLE: size is None, "num_learners": said.get("num_learners") or 0}
        return replace(recipe, gae_window=window, extra=extra)

    def say(self, recipe: Recipe) -> dict[str, Any]:
        learners = recipe.extra.get("num_learners") or 0
        return {
            **super().say(recipe),
            "workers": 1,
            "envs_per_worker": recipe.num_envs,
            "rollout_fragment_length": recipe.gae_window,
            "num_learners": learners,
            "rollout_size": recipe.rollout_size // max(1, learners),
            "minibatch_size": None if recipe.extra.get(_WHOLE) else recipe.minibatch_size // max(1, learners),
        }

    def adapt(self, recipe: Recipe) -> Recipe:
        adapted = super().adapt(recipe)
        learners = recipe.extra.get("num_learners") or 0
        if learners > 1 and (adapted.rollout_size % learners or adapted.minibatch_size % learners):
            raise RequestError(
                "divisibility",
                f"{self.name}: {learners} learners do not share {adapted.rollout_size:,} samples in minibatches of "
                f"{adapted.minibatch_size:,} evenly.",
                f"Choose sizes that are multiples of {learners}, or num_learners 0.",
            )
        whole = adapted.minibatch_size == adapted.rollout_size
        return replace(adapted, gae_window=recipe.gae_window, extra={_WHOLE: whole, "num_learners": learners})

    def rows(self, recipe: Recipe, episodes_ended: int = 0) -> int:
        """Rows that the learner sees: samples, and one masked row for each chunk of an episode."""
        chunks = recipe.num_envs * (recipe.num_steps // recipe.gae_window)
        return recipe.rollout_size + chunks + episodes_ended

    def steps_per_update(self, recipe: Recipe, episodes_ended: int = 0) -> int:
        if recipe.extra.get(_WHOLE):
            return recipe.num_epochs
        if (recipe.extra.get("num_learners") or 0) > 1:  # then the masked rows are not counted, and it rounds down
            return recipe.num_epochs * recipe.rollout_size // recipe.minibatch_size
        return -(-recipe.num_epochs * self.rows(recipe, episodes_ended) // recipe.minibatch_size)

    def epoch(self, recipe: Recipe) -> Split:
        size = min(recipe.minibatch_size, recipe.rollout_size)
        count = 1 if recipe.extra.get(_WHOLE) else -(-self.rows(recipe) // size)
        return Split(recipe.rollout_size, size, count, size)

    def say_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        return super().say_hyper(hyper) | {"use_kl_loss": False, "vf_clip_param": 1e10}


class RLlibOld(RLlib):
    """The names of Ray 2.x before the new stack; contiguous blocks, the tail dropped."""

    name = "rllib_old"
    library = "RLlib PPO (old API stack)"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("num_workers", "workers", 2, aliases=("num_rollout_workers",)),
        Key("num_envs_per_worker", "envs_per_worker", 1),
        Key("rollout_fragment_length", EXTRA, "auto"),
        Key("train_batch_size", "rollout_size", DEFAULT_BATCH),
        Key("sgd_minibatch_size", "minibatch_size", 128),
        Key("num_sgd_iter", "num_epochs", 30),
        Key("training_iteration", "num_updates"),
        Key("lr", "learning_rate", 5e-5),
        Key("gamma", "gamma", 0.99),
        Key("lambda", "gae_lambda", 1.0, aliases=("lambda_",)),
        Key("clip_param", "clip_range", 0.3),
        Key("entropy_coeff", "entropy_coef", 0.0),
        Key("vf_loss_coeff", "value_coef", 1.0),
        Key("grad_clip", "max_grad_norm"),
        Key("kl_coeff", EXTRA, 0.2),
        Key("vf_clip_param", EXTRA, 10.0),
    )
    remainder = Remainder.DROP
    remainder_detail = "drops the tail of each epoch: the last samples of the last environments"
    shuffle = Shuffle.BLOCKS
    others = frozenset({"kl_target"})
    notes: ClassVar[tuple[str, ...]] = (
        "Ray 2.60 ignores sgd_minibatch_size and num_sgd_iter in from_dict: use the names of rllib there",
        "its KL penalty is switched off (kl_coeff: 0), for no other library has one",
    )

    def say(self, recipe: Recipe) -> dict[str, Any]:
        return {**super().say(recipe), "minibatch_size": min(recipe.minibatch_size, recipe.rollout_size)}

    def steps_per_update(self, recipe: Recipe, episodes_ended: int = 0) -> int:  # noqa: ARG002
        return recipe.num_epochs * self.epoch(recipe).num_minibatches

    def epoch(self, recipe: Recipe) -> Split:
        return Dialect.epoch(self, recipe)

    def say_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        return Dialect.say_hyper(self, hyper) | {"kl_coeff": 0.0, "vf_clip_param": 1e10}
