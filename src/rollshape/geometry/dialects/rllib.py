"""RLlib PPO, new and old API stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import Normalization, Shuffle, TimeLimit
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sharing import Ranks, find_outward
from rollshape.geometry.minibatch import Remainder, Split

DEFAULT_BATCH = 4000
TOLERANCE = 0.10
_WHOLE = "whole rollout"  # minibatch_size: null; a number would wrap, because rows outnumber samples


def _learners(recipe: Recipe) -> int:
    """Return num_learners; 0 trains in the main process, like 1."""
    return recipe.world_size if recipe.world_size > 1 else recipe.extra.get("num_learners") or 0


class RLlib(Dialect):
    """Every minibatch has exactly M rows; the last one of an epoch is filled up from the next epoch.

    The learner adds one masked row per chunk of an episode. A rollout of B samples from N environments has B + N rows
    if no episode ends, and an update takes ⌈E·rows/M⌉ gradient steps. Every episode that ends adds a row, unless its
    environment has not taken a step of the next episode yet. While one environment resets, the others may take up to
    N − 1 additional steps.
    """

    name = "rllib"
    library = "RLlib PPO (new API stack)"
    version = "2.60.0"
    proof = "test_rllib.py"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("num_env_runners", "workers", 2),
        Key("num_envs_per_env_runner", "envs_per_worker", 1),
        Key("rollout_fragment_length", EXTRA, "auto"),
        Key("train_batch_size_per_learner", "rollout_size", DEFAULT_BATCH, aliases=("train_batch_size",)),
        Key("num_learners", EXTRA, 0),
        Key("minibatch_size", "minibatch_size", 128, off=None),
        Key("num_epochs", "num_epochs", 30),
        Key("training_iteration", "num_updates"),
        Key("num_env_steps_sampled_lifetime", "total_timesteps", aliases=("timesteps_total",)),
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
    remainder_detail = "fills up the last minibatch of an epoch with samples of the next epoch"
    shuffle = Shuffle.AFTER_FIRST
    normalization = Normalization.ROLLOUT
    time_limit = TimeLimit.FINAL
    ranks = Ranks.LEARNERS
    rounds_up = True
    stops_at_first = True
    stop_section = "stop"
    algorithm_keys = ("run", "run_or_experiment", "algorithm_class", "algo_class")
    unique_features = ("KL penalty (use_kl_loss, kl_coeff)", "no gradient for value errors above vf_clip_param")
    other_keys = frozenset({"kl_coeff", "kl_target"})
    notes: ClassVar[tuple[str, ...]] = (
        "the number of gradient steps varies: every episode that ends adds a masked row",
        "squared value errors above vf_clip_param have no gradient; it is set to 1e10 to disable this",
        "the KL penalty is disabled (use_kl_loss: false), because no other library has one",
    )

    def facts(self, config: Mapping[str, Any], level: tuple[str, ...]) -> dict[str, Any]:
        sections: tuple[tuple[str, ...], ...] = ((), ("model",), ("model_config",))
        return {"recurrent": any(find_outward(config, level, *section, "use_lstm") for section in sections)}

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        n = sizes.get("num_envs") or max(1, sizes["workers"]) * sizes["envs_per_worker"]
        learners = max(sizes.get("world_size") or 1, sizes.get("num_learners") or 1)
        rollout = self.required(sizes, "rollout_size") * learners
        fragment = sizes.get("rollout_fragment_length", "auto")
        if fragment in ("auto", None):
            window = t = -(-rollout // n)
        else:
            window = int(fragment) or 1
            t = -(-rollout // (n * window)) * window
        size, refusal = sizes.get("minibatch_size"), ""
        if n * t > rollout * (1 + TOLERANCE) and fragment not in ("auto", None):
            refusal = f"ValueError: {n:,} environments × {window:,} steps reach {n * t:,}, over 10 % above {rollout:,}"
        elif size is not None and size * learners > rollout:
            refusal = (
                f"ValueError: minibatch_size ({size}) must be <= train_batch_size_per_learner ({rollout // learners})"
            )
        sizes = {**sizes, "minibatch_size": size and size * learners, "num_minibatches": 1}
        recipe = self.recipe(sizes, n, t, refusal)
        extra = {_WHOLE: size is None, "num_learners": sizes.get("num_learners") or 0}
        return replace(recipe, gae_window=window, world_size=learners, extra=extra)

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        learners = _learners(recipe)
        return {
            **super().emit(recipe),
            "workers": 1,
            "envs_per_worker": recipe.num_envs,
            "rollout_fragment_length": recipe.gae_window,
            "num_learners": learners,
            "total_timesteps": None,  # training_iteration is exact
            "rollout_size": recipe.rollout_size // max(1, learners),
            "minibatch_size": None if recipe.extra.get(_WHOLE) else recipe.minibatch_size // max(1, learners),
        }

    def adapt(self, recipe: Recipe) -> Recipe:
        """Adapt the minibatch; every learner has an equal part of it, and of the rollout (rounded down)."""
        nearest, learners = super().adapt(replace(recipe, world_size=1)), _learners(recipe)
        rollout, size = nearest.rollout_size, nearest.minibatch_size
        if learners > 1 and (rollout < learners or rollout % learners >= recipe.num_envs):
            raise RequestError(
                "divisibility",
                f"{self.name}: {rollout:,} samples of {recipe.num_envs:,} environments cannot be divided evenly among "
                f"{learners:,} learners.",
                f"Use a multiple of {learners:,} samples, or num_learners 0.",
            )
        whole = size == rollout
        if learners > 1 and not whole:
            size = max(learners, size - size % learners)
        extra = {_WHOLE: whole, "num_learners": learners}
        return replace(
            nearest, minibatch_size=size, gae_window=recipe.gae_window, world_size=recipe.world_size, extra=extra
        )

    def rows(self, recipe: Recipe, episodes_ended: int = 0) -> int:
        """Return the rows of a learner batch: samples, and one masked row per chunk of an episode."""
        chunks = recipe.num_envs * (recipe.num_steps // recipe.gae_window)
        return recipe.rollout_size + chunks + episodes_ended

    def steps_per_update(self, recipe: Recipe, episodes_ended: int = 0) -> int:
        if recipe.extra.get(_WHOLE):
            return recipe.num_epochs
        if _learners(recipe) > 1:  # masked rows are not counted then, and it rounds down
            return recipe.num_epochs * recipe.rollout_size // recipe.minibatch_size
        return -(-recipe.num_epochs * self.rows(recipe, episodes_ended) // recipe.minibatch_size)

    def epoch(self, recipe: Recipe) -> Split:
        size = min(recipe.minibatch_size, recipe.rollout_size)
        count = 1 if recipe.extra.get(_WHOLE) else -(-self.rows(recipe) // size)
        return Split(recipe.rollout_size, size, count, size)

    def emit_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        return super().emit_hyper(hyper) | {"use_kl_loss": False, "vf_clip_param": 1e10}


class RLlibOld(RLlib):
    """The keys of Ray 2.x before the new API stack; contiguous blocks, the remainder is dropped."""

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
        Key("timesteps_total", "total_timesteps", aliases=("num_env_steps_sampled_lifetime",)),
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
    ranks = Ranks.ONE
    remainder = Remainder.DROP
    remainder_detail = "drops the remainder of each epoch: the last samples of the last environments"
    shuffle = Shuffle.BLOCKS
    other_keys = frozenset({"kl_target"})
    notes: ClassVar[tuple[str, ...]] = (
        "Ray 2.60 ignores sgd_minibatch_size and num_sgd_iter in from_dict; use the dialect rllib there",
        "the KL penalty is disabled (kl_coeff: 0), because no other library has one",
    )

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        return {**super().emit(recipe), "minibatch_size": min(recipe.minibatch_size, recipe.rollout_size)}

    def steps_per_update(self, recipe: Recipe, episodes_ended: int = 0) -> int:  # noqa: ARG002
        return recipe.num_epochs * self.epoch(recipe).num_minibatches

    def epoch(self, recipe: Recipe) -> Split:
        return Dialect.epoch(self, recipe)

    def emit_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        return Dialect.emit_hyper(self, hyper) | {"kl_coeff": 0.0, "vf_clip_param": 1e10}
