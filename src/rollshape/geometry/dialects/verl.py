"""verl (Volcano Engine Reinforcement Learning for LLMs)."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, ClassVar

from rollshape.geometry.completions import BatchSplit, automatic_microbatch
from rollshape.geometry.dialects.behaviors import Shuffle
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.language import CompletionRecipe, LanguageDialect, new_recipe
from rollshape.geometry.dialects.recipe import Recipe

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor.", "actor_rollout_ref.rollout."
_DYNAMIC, _OLD_MICRO = _ACTOR + "use_dynamic_bsz", _ACTOR + "ppo_micro_batch_size"
_SEQUENCE = _ACTOR + "ulysses_sequence_parallel_size"
_NODES, _GENERATION_BATCH = "trainer.nnodes", "data.gen_batch_size"
_STRATEGY, _ESTIMATOR = _ACTOR + "strategy", "algorithm.adv_estimator"
_MEGATRON = tuple(f"{_ACTOR}megatron.{name}_parallel_size" for name in ("tensor_model", "pipeline_model", "context"))
_KL_LOSS, _KL_REWARD = _ACTOR + "use_kl_loss", "algorithm.use_kl_in_reward"


class Verl(LanguageDialect):
    """`train_batch_size` and `ppo_mini_batch_size` count prompts, on all GPUs; micro-batches count completions per GPU.

    Both are multiplied by `rollout.n`. GPUs of one model replica (tensor, pipeline, context or sequence parallelism)
    count once.
    """

    name = "verl"
    library = "verl"
    version = "0.9.1"
    layout = "nested"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("data.train_batch_size", "num_prompts", 1024),
        Key(_ROLLOUT + "n", "num_generations", 1),
        Key(_ACTOR + "ppo_mini_batch_size", "prompts_per_minibatch", 256),
        Key(_ACTOR + "ppo_micro_batch_size_per_gpu", "microbatch_size"),
        Key(_ACTOR + "ppo_epochs", "num_epochs", 1),
        Key("trainer.n_gpus_per_node", "world_size", 8),
        Key("trainer.total_training_steps", "num_updates"),
        Key(_NODES, EXTRA, 1),
        Key(_DYNAMIC, EXTRA, False),
        Key(_OLD_MICRO, EXTRA, whole=True),
        Key(_SEQUENCE, EXTRA, 1),
        *(Key(name, EXTRA, whole=True) for name in _MEGATRON),
        Key(_STRATEGY, EXTRA),
        Key(_GENERATION_BATCH, EXTRA, whole=True),
        Key(_ESTIMATOR, EXTRA, "gae"),
        Key(_KL_LOSS, EXTRA, False),
        Key(_KL_REWARD, EXTRA, False),
        Key("trainer.total_epochs", "data_epochs", 30),
        Key(_ACTOR + "optim.lr", "learning_rate", 1e-6),
        Key(_ACTOR + "grad_clip", "max_grad_norm", 1.0),
        Key(_ACTOR + "clip_ratio", "clip_range", 0.2),
        Key(_ACTOR + "kl_loss_coef", "kl_loss_coef", 0.001),
        Key("algorithm.kl_ctrl.kl_coef", "kl_reward_coef", 0.001),
        Key("algorithm.gamma", "gamma", 1.0),
        Key("algorithm.lam", "gae_lambda", 1.0),
    )
    estimator_key = _ESTIMATOR
    estimators: ClassVar[Mapping[str, tuple[str, str]]] = {
        "grpo": ("grpo", "grpo"),
        "grpo_vectorized": ("grpo", "grpo"),
        "rloo": ("rloo", "rloo"),
        "rloo_vectorized": ("rloo", "rloo"),
        "gae": ("gae", "ppo"),
        "reinforce_plus_plus": ("reinforce++", "reinforce"),
        "reinforce_plus_plus_baseline": ("reinforce++ baseline", "grpo"),
        "remax": ("remax", "reinforce"),
        "opo": ("opo", "grpo"),
        "grpo_passk": ("grpo pass@k", "grpo"),
        "gpg": ("gpg", "grpo"),
        "gdpo": ("gdpo", "grpo"),
        "optimal_token_baseline": ("optimal token baseline", "grpo"),
        "tir_optimal_token_baseline": ("tir optimal token baseline", "grpo"),
    }
    whole_groups = True
    remainder_detail = (
        "AssertionError if minibatches do not divide the batch (the trainer of 0.9 adds padding completions instead), "
        "or micro-batches the GPU's share of a minibatch"
    )
    shuffle = Shuffle.COMPLETIONS_IN_ORDER
    other_keys = frozenset({"val_batch_size", "log_prob_micro_batch_size", "log_prob_micro_batch_size_per_gpu"})
    notes: ClassVar[tuple[str, ...]] = (
        "ppo_mini_batch_size counts prompts before rollout.n is applied, ppo_micro_batch_size_per_gpu completions",
        "rollout and reference model have micro-batches of their own (log_prob_micro_batch_size_per_gpu), which do not "
        "change the result",
        "with use_dynamic_bsz, micro-batches are formed by tokens (ppo_max_token_len_per_gpu)",
    )

    def read_sizes(self, sizes: Mapping[str, Any]) -> CompletionRecipe:
        generations, gpus = sizes["num_generations"], sizes["world_size"] * (sizes.get(_NODES) or 1)
        prompts, minibatch = sizes["num_prompts"], sizes["prompts_per_minibatch"]
        parallel = _replica_gpus(sizes)
        replicas, refusal = max(1, gpus // parallel), ""
        if gpus % parallel:
            refusal = f"AssertionError: n_gpus ({gpus}) must be divisible by {parallel}, the GPUs of one model replica"
        rollout, size = prompts * generations, min(prompts, minibatch) * generations
        micro = sizes.get("microbatch_size")
        if sizes.get(_OLD_MICRO) and micro is None:
            micro = max(1, sizes[_OLD_MICRO] // gpus)
        dynamic = bool(sizes.get(_DYNAMIC))
        if micro is None or dynamic:
            if not dynamic:
                refusal = refusal or "AssertionError: set ppo_micro_batch_size_per_gpu, or use_dynamic_bsz"
            micro = automatic_microbatch(max(1, size // replicas))
        if not refusal:
            refusal = self._refusal(sizes, BatchSplit(rollout, minibatch * generations, micro), gpus, replicas, dynamic)
        return new_recipe(
            BatchSplit(rollout, size, micro),
            sizes,
            **self.read_estimator(str(sizes.get(_ESTIMATOR))),
            num_generations=generations,
            world_size=replicas,
            refusal=refusal,
            extra={key.name: sizes.get(key.name) for key in self.keys if key.concept == EXTRA},
        )

    def _refusal(self, sizes: Mapping[str, Any], split: BatchSplit, gpus: int, replicas: int, dynamic: bool) -> str:
        """Return why verl rejects the sizes, with its own numbers: `split` is in completions."""
        rollout, size, micro = split.rollout_size, split.minibatch_size, split.microbatch_size
        generated = sizes.get(_GENERATION_BATCH)
        if generated and generated != sizes["num_prompts"]:
            return f"gen_batch_size {generated} differs from train_batch_size (dynamic sampling): updates vary in size"
        least = replicas * micro if _is_megatron(sizes) else gpus
        if not dynamic and rollout % least:
            return (
                f"AssertionError: real_train_batch_size ({rollout}) must be divisible by minimal possible batch size "
                f"({least})"
            )
        if size > rollout:
            return (
                f"ValueError: train_batch_size ({sizes['num_prompts']}) must be >= actor.ppo_mini_batch_size "
                f"({sizes['prompts_per_minibatch']})"
            )
        if size % replicas:
            return f"AssertionError: mini_batch_size={size} completions on {replicas} data-parallel GPUs"
        if rollout % size:
            return f"AssertionError: {rollout} % {size} != 0 completions (train_batch_size, ppo_mini_batch_size)"
        if not dynamic and size // replicas % micro:
            return (
                f"AssertionError: data size must be divisible by micro_batch_size_per_gpu: {size // replicas} "
                f"completions per GPU % {micro}"
            )
        return ""

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        assert isinstance(recipe, CompletionRecipe)
        nodes = recipe.extra.get(_NODES) or 1
        return {
            "num_prompts": recipe.num_prompts,
            "num_generations": recipe.num_generations,
            "prompts_per_minibatch": recipe.minibatch_size // recipe.num_generations,
            "microbatch_size": None if recipe.extra.get(_DYNAMIC) else recipe.microbatch_size,
            "num_epochs": recipe.num_epochs,
            "world_size": recipe.world_size * _replica_gpus(recipe.extra) // nodes,
            "num_updates": recipe.num_updates,
            _ESTIMATOR: self.write_estimator(recipe),
        }

    def parse_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        hyper = super().parse_hyper(values)
        for flag, concept in ((_KL_LOSS, "kl_loss_coef"), (_KL_REWARD, "kl_reward_coef")):
            if not values.get(flag):
                hyper.pop(concept, None)
        if values.get(_ESTIMATOR, "gae") != "gae":
            hyper = {concept: value for concept, value in hyper.items() if concept not in ("gamma", "gae_lambda")}
        return hyper

    def emit_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        values = super().emit_hyper(hyper)
        return values | {_KL_LOSS: "kl_loss_coef" in hyper, _KL_REWARD: "kl_reward_coef" in hyper}


def _replica_gpus(sizes: Mapping[str, Any]) -> int:
    """Return the number of GPUs that share one model replica."""
    names = _MEGATRON if _is_megatron(sizes) else (_SEQUENCE,)
    return prod(sizes.get(name) or 1 for name in names)


def _is_megatron(sizes: Mapping[str, Any]) -> bool:
    """Return whether Megatron trains: `strategy` says so, or is in another file and only Megatron's keys are here."""
    strategy = sizes.get(_STRATEGY)
    return strategy == "megatron" or (strategy is None and any(sizes.get(name) for name in _MEGATRON))
