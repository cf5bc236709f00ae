"""TRL (Transformer Reinforcement Learning): GRPOTrainer, RLOOTrainer and PPOTrainer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Any, ClassVar

from rollshape.geometry.completions import BatchSplit
from rollshape.geometry.dialects.behaviors import Normalization, Shuffle
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.language import CompletionRecipe, LanguageDialect, new_recipe
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.rules import Finding

_GENERATION_BATCH, _ROUNDS = "generation_batch_size", "generation rounds"
_MINIBATCHES, _DEVICE = "num_mini_batches", "per_device_train_batch_size"
_OTHER_KEYS = frozenset(
    {
        "per_device_eval_batch_size", "num_generations_eval", "eval_steps", "save_steps", "logging_steps",
        "warmup_steps", "eval_accumulation_steps", "local_rollout_forward_batch_size", "num_sample_generations",
    }
)  # fmt: skip


def _shared_keys(learning_rate: float) -> tuple[Key, ...]:
    return (
        Key("per_device_train_batch_size", "microbatch_size", 8),
        Key("gradient_accumulation_steps", "gradient_accumulation_steps", 1),
        Key("num_processes", "world_size", 1, aliases=("world_size",)),
        Key("num_train_epochs", "data_epochs", 3.0),
        Key("learning_rate", "learning_rate", learning_rate),
        Key("max_grad_norm", "max_grad_norm", 1.0),
    )


class TrlGrpo(LanguageDialect):
    """`per_device_train_batch_size` counts completions, not prompts; a generation batch must contain whole groups.

    The number of GPUs is not in the config: `num_processes` is a flag of `accelerate launch` (and may be in the YAML of
    the `trl` command).
    """

    name = "trl:grpo"
    library = "TRL GRPOTrainer"
    version = "1.16.0"
    proof = "test_trl.py"
    algorithm = "GRPO"
    algorithm_names = frozenset({"grpo", "dapo"})
    estimators: ClassVar[Mapping[str, tuple[str, str]]] = {"grpo": ("grpo", "grpo")}
    keys: ClassVar[tuple[Key, ...]] = (
        *_shared_keys(1e-6),
        Key("num_generations", "num_generations", 8),
        Key("steps_per_generation", "steps_per_generation"),
        Key(_GENERATION_BATCH, EXTRA, whole=True),
        Key("num_iterations", "num_epochs", 1),
        Key("max_steps", "optimizer_steps", -1),
        Key("epsilon", "clip_range", 0.2),
        Key("beta", "kl_loss_coef", 0.0, off=0.0),
    )
    fixable: ClassVar[frozenset[str]] = frozenset({_GENERATION_BATCH})
    remainder_detail = (
        "ValueError: generation_batch_size must be divisible by num_generations; prompts of the dataset that fill no "
        "generation batch are dropped in each pass"
    )
    shuffle = Shuffle.COMPLETIONS_ONCE
    schedule = "linear to zero"
    other_keys = _OTHER_KEYS
    notes: ClassVar[tuple[str, ...]] = (
        "steps_per_generation counts micro-batches; it is gradient_accumulation_steps unless it is set, which is one "
        "optimizer step per generation batch",
        "max_steps counts optimizer steps, not updates",
        "num_processes belongs to `accelerate launch`, not to the trainer's config",
    )

    def read_sizes(self, sizes: Mapping[str, Any]) -> CompletionRecipe:
        micro, steps = sizes["microbatch_size"], sizes["gradient_accumulation_steps"]
        gpus, generations, epochs = sizes["world_size"], sizes["num_generations"], sizes["num_epochs"]
        unit = gpus * micro
        per_generation, given = sizes.get("steps_per_generation"), sizes.get(_GENERATION_BATCH)
        refusal = ""
        if given and per_generation:
            refusal = "ValueError: 'generation_batch_size' and 'steps_per_generation' can not be both configured"
        elif given and given % unit:
            refusal = f"ValueError: generation_batch_size ({given}) must be divisible by the global batch size ({unit})"
        per_generation = per_generation or (max(1, given // unit) if given else steps)
        batch = unit * per_generation
        if not refusal and batch % generations:
            refusal = (
                f"ValueError: generation_batch_size ({batch}) must be divisible by num_generations ({generations})"
            )
        if generations < 2:
            refusal = f"ValueError: at least 2 generations per prompt are required, got {generations}"
        rounds = steps // per_generation if steps % per_generation == 0 and epochs == 1 else 1
        if not refusal and per_generation * rounds % steps:
            refusal = (
                f"an optimizer step of {steps} micro-batches (gradient_accumulation_steps) mixes completions of "
                f"different generation batches, which have {per_generation} (steps_per_generation); TRL accepts this"
            )
        extra = {_GENERATION_BATCH: bool(given), _ROUNDS: rounds}
        recipe = new_recipe(
            BatchSplit(max(batch * rounds, unit * steps), unit * steps, micro),
            sizes,
            **self.read_estimator(self.name.partition(":")[2]),
            num_generations=generations,
            world_size=gpus,
            refusal=refusal,
            extra=extra,
        )
        return _with_optimizer_steps(recipe, sizes.get("optimizer_steps"))

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        assert isinstance(recipe, CompletionRecipe)
        steps = recipe.accumulation
        per_generation = steps * recipe.num_minibatches
        rounds = recipe.extra.get(_ROUNDS) or 1
        if recipe.num_minibatches == 1 and steps % rounds == 0 and recipe.num_prompts % rounds == 0:
            per_generation //= rounds
        by_size = recipe.extra.get(_GENERATION_BATCH)
        values = _emit_shared(recipe) | {
            "num_generations": recipe.num_generations,
            "steps_per_generation": None if by_size or per_generation == steps else per_generation,
            "num_epochs": recipe.num_epochs,
            "optimizer_steps": _optimizer_steps(recipe),
        }
        size = recipe.world_size * recipe.microbatch_size * per_generation
        return values | ({_GENERATION_BATCH: size} if by_size else {})

    def adapt(self, recipe: Recipe) -> Recipe:
        nearest = super().adapt(recipe)
        assert isinstance(nearest, CompletionRecipe)
        return replace(nearest, **self.read_estimator(self.name.partition(":")[2]))


class TrlRloo(TrlGrpo):
    """As GRPO, with a leave-one-out baseline and two generations by default."""

    name = "trl:rloo"
    library = "TRL RLOOTrainer"
    proof = "test_trl.py"
    algorithm = "RLOO"
    algorithm_names = frozenset({"rloo"})
    estimators: ClassVar[Mapping[str, tuple[str, str]]] = {"rloo": ("rloo", "rloo")}
    keys: ClassVar[tuple[Key, ...]] = (
        *(key for key in TrlGrpo.keys if key.concept not in ("num_generations", "kl_loss_coef")),
        Key("num_generations", "num_generations", 2),
        Key("beta", "kl_reward_coef", 0.05, off=0.0),
    )
    normalization = Normalization.OFF


class TrlPpo(LanguageDialect):
    """The batch is per_device_train_batch_size × gradient_accumulation_steps × GPUs prompts, one completion each.

    `num_mini_batches` divides the batch, but the optimizer still steps once every `gradient_accumulation_steps`
    micro-batches: unless that is 1, `num_mini_batches` changes less than its name says, mostly nothing.
    """

    name = "trl:ppo"
    library = "TRL PPOTrainer (trl.experimental; removed in 1.13)"
    version = "1.12.0"
    proof = "test_trl_ppo.py"
    algorithm = "PPO"
    algorithm_names = frozenset({"ppo"})
    estimators: ClassVar[Mapping[str, tuple[str, str]]] = {"ppo": ("gae", "ppo")}
    keys: ClassVar[tuple[Key, ...]] = (
        *_shared_keys(3e-6),
        Key(_MINIBATCHES, "num_minibatches", 1),
        Key("num_ppo_epochs", "num_epochs", 4),
        Key("total_episodes", "total_timesteps"),
        Key("cliprange", "clip_range", 0.2),
        Key("vf_coef", "value_coef", 0.1, scale=0.5),
        Key("gamma", "gamma", 1.0),
        Key("lam", "gae_lambda", 0.95),
        Key("kl_coef", "kl_reward_coef", 0.05, off=0.0),
    )
    remainder_detail = "ValueError: `batch_size` must be a multiple of `num_mini_batches`"
    rounds_up = True
    shuffle = Shuffle.COMPLETIONS_EACH_EPOCH
    normalization = Normalization.ROLLOUT
    schedule = "linear to zero"
    value_clip = "clipped (cliprange_value)"
    other_keys = _OTHER_KEYS | {"num_mini_batches_eval"}
    notes: ClassVar[tuple[str, ...]] = (
        "the optimizer steps once every gradient_accumulation_steps micro-batches, across num_mini_batches",
        "in the last batch of each pass over the dataset, accelerate makes every micro-batch an optimizer step",
    )

    def read_sizes(self, sizes: Mapping[str, Any]) -> CompletionRecipe:
        device, steps, gpus = sizes["microbatch_size"], sizes["gradient_accumulation_steps"], sizes["world_size"]
        count, local = sizes["num_minibatches"], device * steps
        micro, per_epoch = _ppo_steps(device, steps, count)
        refusal = ""
        if local % count:
            refusal = f"ValueError: `batch_size` must be a multiple of `num_mini_batches`: {gpus * local} / {count}"
        elif count % steps and steps % count:
            refusal = (
                f"an optimizer step of {steps} micro-batches (gradient_accumulation_steps) does not end with one of "
                f"the {count} minibatches (num_mini_batches); TRL accepts this"
            )
        recipe = new_recipe(
            BatchSplit(gpus * local, gpus * local // per_epoch, micro),
            sizes,
            **self.read_estimator("ppo"),
            world_size=gpus,
            refusal=refusal,
            extra={_MINIBATCHES: count, _DEVICE: device},
        )
        total = sizes.get("total_timesteps")
        return (
            recipe
            if total is None
            else replace(recipe, total_timesteps=total, num_updates=ceil(total / (gpus * local)))
        )

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        assert isinstance(recipe, CompletionRecipe)
        steps = recipe.accumulation
        device, count = recipe.extra.get(_DEVICE, 0), recipe.extra.get(_MINIBATCHES, 1)
        if not device or _ppo_steps(device, steps, count) != (recipe.microbatch_size, recipe.num_minibatches):
            device = recipe.microbatch_size * recipe.num_minibatches
            count = 1 if recipe.num_minibatches == 1 else recipe.num_minibatches * steps
        return _emit_shared(recipe) | {
            "microbatch_size": device,
            "num_minibatches": count,
            "num_epochs": recipe.num_epochs,
            "total_timesteps": self.budget(recipe),
        }

    def adapt(self, recipe: Recipe) -> Recipe:
        return replace(super().adapt(recipe), extra={})

    def generations(self, recipe: CompletionRecipe) -> int:
        del recipe
        return 1

    def findings(self, recipe: CompletionRecipe) -> tuple[Finding, ...]:
        count = recipe.extra.get(_MINIBATCHES) or recipe.num_minibatches
        if count == recipe.num_minibatches:
            return ()
        return (
            Finding(
                "minibatch-accumulation",
                "warn",
                f"num_mini_batches {count} gives {recipe.num_minibatches} optimizer step(s) per epoch: the optimizer "
                f"steps once every {recipe.accumulation} micro-batches (gradient_accumulation_steps).",
                "Multiply per_device_train_batch_size instead, with gradient_accumulation_steps 1.",
                f"source code of {self.library} {self.version}, and tests/peers/{self.proof}",
                {"num_mini_batches": count, "optimizer_steps_per_epoch": recipe.num_minibatches},
            ),
        )


def _ppo_steps(device: int, steps: int, count: int) -> tuple[int, int]:
    """Return (completions per micro-batch, optimizer steps per epoch) of PPOTrainer.

    A minibatch that is smaller than `per_device_train_batch_size` is one micro-batch.
    """
    return (device * steps // count, count // steps) if count % steps == 0 else (device, 1)


def _with_optimizer_steps(recipe: CompletionRecipe, steps: int | None) -> CompletionRecipe:
    """Return the recipe with a budget of optimizer steps; the last update may be cut short."""
    if steps is None:
        return recipe
    updates = ceil(steps / (recipe.num_epochs * recipe.num_minibatches))
    return replace(recipe, optimizer_steps=steps, num_updates=updates, total_timesteps=updates * recipe.num_envs)


def _optimizer_steps(recipe: CompletionRecipe) -> int | None:
    """Return the budget in optimizer steps; if the number of steps per update has changed, the updates count."""
    if recipe.num_updates is None:
        return None
    per_update = recipe.num_epochs * recipe.num_minibatches
    steps = recipe.optimizer_steps
    return steps if steps and ceil(steps / per_update) == recipe.num_updates else recipe.num_updates * per_update


def _emit_shared(recipe: CompletionRecipe) -> dict[str, Any]:
    return {
        "microbatch_size": recipe.microbatch_size,
        "gradient_accumulation_steps": recipe.accumulation,
        "world_size": recipe.world_size,
    }


TRL: tuple[LanguageDialect, ...] = (TrlGrpo(), TrlRloo(), TrlPpo())
