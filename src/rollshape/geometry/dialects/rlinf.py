"""RLinf: language models (`runner.task_type: reasoning`) and robot policies (`embodied`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any, ClassVar

from rollshape.errors import RequestError
from rollshape.formatting import short_repr
from rollshape.geometry.completions import BatchSplit
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import Normalization, Shuffle, TimeLimit
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.language import CompletionRecipe, LanguageDialect, new_recipe
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.divisors import largest_divisor, nearest_divisor
from rollshape.geometry.minibatch import Remainder

_PLACEMENT, _NODES, _GPUS_PER_NODE = "cluster.component_placement", "cluster.num_nodes", 8
_ESTIMATOR, _MAX_EPOCHS = "algorithm.adv_type", "runner.max_epochs"
_PARALLEL = tuple(f"actor.model.{name}_parallel_size" for name in ("tensor_model", "pipeline_model", "context"))
_MICRO, _CHUNKS, _ROUNDS = "actor.micro_batch_size", "actor.model.num_action_chunks", "env.train.rollout_epoch"
_LOSS, _ON_POLICY = "algorithm.loss_type", ("actor", "actor_critic", "decoupled_actor_critic")
_RANK = r"\d{1,6}"
_GPU_NOTE = "`all` in component_placement means every GPU of the cluster: 8 per node are assumed"


class RLinfReasoning(LanguageDialect):
    """Language models: `rollout_batch_size` counts prompts, `training_batch_size_per_gpu` completions of a micro-batch.

    GPUs of one model replica (tensor, pipeline or context parallelism) count once.
    """

    name = "rlinf:reasoning"
    library = "RLinf (reasoning)"
    version = "0.3.0"
    layout = "nested"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("data.rollout_batch_size", "num_prompts"),
        Key("algorithm.group_size", "num_generations", 1),
        Key("algorithm.n_minibatches", "num_minibatches", 1),
        Key("algorithm.training_batch_size_per_gpu", "microbatch_size", 1),
        Key("runner.max_steps", "num_updates", -1),
        Key(_PLACEMENT, EXTRA),
        Key(_NODES, EXTRA, 1),
        *(Key(name, EXTRA, 1) for name in _PARALLEL),
        Key(_ESTIMATOR, EXTRA, "grpo"),
        Key(_MAX_EPOCHS, "data_epochs"),
        Key("actor.optim.lr", "learning_rate"),
        Key("actor.optim.clip_grad", "max_grad_norm"),
        Key("algorithm.ratio_clip_eps", "clip_range"),
        Key("algorithm.kl_beta", "kl_loss_coef", 0.0, off=0.0),
    )
    estimator_key = _ESTIMATOR
    estimators: ClassVar[Mapping[str, tuple[str, str]]] = {
        "grpo": ("grpo", "grpo"),
        "gae": ("gae", "ppo"),
        "reinpp": ("reinforce++", "reinforce"),
        "reinpp_baseline": ("reinforce++ baseline", "grpo"),
        "grpo_dynamic": ("grpo with groups of any size", "grpo"),
    }
    remainder_detail = "AssertionError if micro-batches do not divide the GPU's share of a minibatch"
    shuffle = Shuffle.COMPLETIONS_IN_ORDER
    other_keys = frozenset({"val_rollout_batch_size", "rollout_batch_size_per_gpu", "val_rollout_batch_size_per_gpu"})
    notes: ClassVar[tuple[str, ...]] = (_GPU_NOTE,)

    def read_sizes(self, sizes: Mapping[str, Any]) -> CompletionRecipe:
        prompts, generations = self.required(sizes, "num_prompts"), sizes["num_generations"]
        count, micro, gpus = sizes["num_minibatches"], sizes["microbatch_size"], _gpus(sizes)
        parallel = prod(sizes.get(name) or 1 for name in _PARALLEL)
        replicas, rollout, refusal = max(1, gpus // parallel), prompts * generations, ""
        if gpus % parallel:
            refusal = f"{gpus} GPUs are not a multiple of the {parallel} GPUs of one model replica"
        elif rollout % (count * replicas):
            refusal = f"{rollout} completions are not a multiple of {count} minibatches × {replicas} GPUs"
        elif rollout // (count * replicas) % micro:
            share = rollout // (count * replicas)
            refusal = f"AssertionError: global batch size {share} can not divide micro_batch_size {micro}"
        return new_recipe(
            BatchSplit(rollout, max(1, rollout // count), micro),
            sizes,
            **self.read_estimator(str(sizes.get(_ESTIMATOR))),
            num_generations=generations,
            world_size=replicas,
            refusal=refusal,
            extra={key.name: sizes.get(key.name) for key in self.keys if key.concept == EXTRA},
        )

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        assert isinstance(recipe, CompletionRecipe)
        placement = recipe.extra.get(_PLACEMENT) or {"actor,rollout,reward": f"0-{recipe.world_size - 1}"}
        return {
            "num_prompts": recipe.num_prompts,
            "num_generations": recipe.num_generations,
            "num_minibatches": recipe.num_minibatches,
            "microbatch_size": recipe.microbatch_size,
            "num_updates": recipe.num_updates,
            _PLACEMENT: placement,
            _ESTIMATOR: self.write_estimator(recipe),
        }

    def adapt(self, recipe: Recipe) -> Recipe:
        """Adapt the split; a rollout is used once (there is no key for more epochs)."""
        return replace(super().adapt(recipe), num_epochs=1)


class RLinfEmbodied(Dialect):
    """Robot policies: a sample is one chunk of actions; `global_batch_size` is the minibatch on all GPUs.

    A rollout has `rollout_epoch` windows of max_steps_per_rollout_epoch / num_action_chunks samples per environment.
    """

    name = "rlinf:embodied"
    library = "RLinf (embodied)"
    version = "0.3.0"
    layout = "nested"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("env.train.total_num_envs", "num_envs"),
        Key("env.train.max_steps_per_rollout_epoch", "num_steps"),
        Key("actor.global_batch_size", "minibatch_size"),
        Key("algorithm.update_epoch", "num_epochs", 1),
        Key("runner.max_steps", "num_updates", -1),
        Key(_MAX_EPOCHS, EXTRA, whole=True),
        Key(_ROUNDS, EXTRA, 1),
        Key(_CHUNKS, EXTRA, whole=True),
        Key(_LOSS, EXTRA, "actor_critic"),
        Key(_MICRO, EXTRA, whole=True),
        Key(_PLACEMENT, EXTRA),
        Key(_NODES, EXTRA, 1),
        Key("actor.optim.lr", "learning_rate"),
        Key("actor.optim.clip_grad", "max_grad_norm"),
        Key("algorithm.gamma", "gamma", 1.0),
        Key("algorithm.gae_lambda", "gae_lambda", 1.0),
        Key("algorithm.clip_ratio_high", "clip_range"),
        Key("algorithm.entropy_bonus", "entropy_coef", 0.0),
    )
    algorithm_names = Dialect.algorithm_names | {"grpo"}
    remainder = Remainder.REFUSE
    remainder_detail = "AssertionError: {rollout} is not divisible by {minibatch}"
    shuffle = Shuffle.ONCE
    normalization = Normalization.ROLLOUT
    time_limit = TimeLimit.CURRENT
    fixable: ClassVar[frozenset[str]] = frozenset({_MICRO})
    notes: ClassVar[tuple[str, ...]] = (
        _GPU_NOTE,
        "budgets and sizes are in chunks of actions: an environment makes num_action_chunks steps per sample",
    )

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        n, steps = self.required(sizes, "num_envs"), self.required(sizes, "num_steps")
        chunks, rounds = sizes.get(_CHUNKS), sizes.get(_ROUNDS) or 1
        _check_algorithm(sizes.get(_LOSS))
        if not chunks:
            raise RequestError(
                "missing-key",
                f"The {self.name} config does not contain num_action_chunks, which divides the steps of a rollout.",
                "It is in the file of the model that `defaults` names: add it as actor.model.num_action_chunks.",
            )
        self.required(sizes, "minibatch_size")
        refusal = ""
        if steps % chunks:
            refusal = (
                f"AssertionError: max_steps_per_rollout_epoch {steps} must be divisible by num_action_chunks {chunks}"
            )
        window = max(1, steps // chunks)
        budgets = [value for value in (sizes.get("num_updates"), sizes.get(_MAX_EPOCHS)) if value is not None]
        recipe = self.recipe({**sizes, "num_updates": min(budgets, default=None)}, n, window * rounds, refusal)
        return replace(recipe, gae_window=window, num_minibatches=max(1, recipe.rollout_size // recipe.minibatch_size))

    def problem(self, recipe: Recipe) -> str:
        problem, gpus = super().problem(recipe), _gpus(recipe.extra)
        micro = recipe.extra.get(_MICRO) or 1
        if not problem and recipe.minibatch_size % (gpus * micro):
            return (
                "AssertionError: global_batch_size is not divisible by micro_batch_size * world_size "
                f"({recipe.minibatch_size} % ({micro} * {gpus}))"
            )
        return problem

    def adapt(self, recipe: Recipe) -> Recipe:
        """Adapt the minibatch to the GPUs of an RLinf config, and its micro-batches to the minibatch."""
        kept = {name: recipe.extra.get(name) for name in (_PLACEMENT, _NODES, _CHUNKS)}
        gpus, rollout = _gpus(recipe.extra), recipe.rollout_size
        window = recipe.gae_window if recipe.num_steps % recipe.gae_window == 0 else recipe.num_steps
        nearest = super().adapt(recipe)
        if rollout % gpus == 0 and nearest.minibatch_size % gpus:
            count = nearest_divisor(rollout // gpus, Fraction(rollout, recipe.minibatch_size))
            nearest = replace(nearest, minibatch_size=rollout // count, num_minibatches=count)
        share = max(1, nearest.minibatch_size // gpus)
        micro = largest_divisor(share, recipe.extra.get(_MICRO) or share)
        return replace(nearest, gae_window=window, extra=kept | {_MICRO: micro})

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        chunks, gpus = recipe.extra.get(_CHUNKS) or 1, _gpus(recipe.extra)
        micro = recipe.extra.get(_MICRO) or 0
        share = max(1, recipe.minibatch_size // gpus)
        rounds = recipe.num_steps // recipe.gae_window
        return super().emit(recipe) | {
            "num_steps": recipe.gae_window * chunks,
            _ROUNDS: rounds,
            _CHUNKS: chunks,
            _MICRO: micro if micro and share % micro == 0 else share,
            **({} if recipe.extra.get(_PLACEMENT) else {_PLACEMENT: {"actor,env,rollout": "0"}}),
        }


def _check_algorithm(loss: Any) -> None:
    """Refuse what is not on-policy, by its loss: SAC, DAgger and offline methods use the same keys."""
    if loss is not None and str(loss).strip() not in _ON_POLICY:
        raise RequestError(
            "family",
            f"{_LOSS} is {short_repr(loss)}: Rollshape plans on-policy batches ({', '.join(_ON_POLICY)}).",
            "Give a config of PPO or GRPO.",
        )


def _gpus(sizes: Mapping[str, Any]) -> int:
    """Return the number of GPUs that train: `actor: 0-7`, `actor,rollout: all`, or one if there is no placement."""
    placement = sizes.get(_PLACEMENT)
    if placement is None:
        return 1
    named = None
    if isinstance(placement, Mapping):
        for names, ranks in placement.items():
            if isinstance(names, str) and "actor" in names.split(","):
                named = ranks.get("placement", ranks) if isinstance(ranks, Mapping) else ranks
    if named is None:
        raise RequestError("missing-key", f"{_PLACEMENT} names no GPUs of the actor.", "Add actor: 0-7, for example.")
    if named == "all":
        return _GPUS_PER_NODE * int(sizes.get(_NODES) or 1)
    text = named.replace(" ", "") if isinstance(named, str) else short_repr(named)
    ranges = re.fullmatch(rf"{_RANK}(-{_RANK})?(,{_RANK}(-{_RANK})?)*", text)
    if ranges is None:
        raise RequestError(
            "choice", f"{_PLACEMENT}: {short_repr(named)} is not a range of GPUs.", "Write it as 0-7, or as all."
        )
    ends = [(part.split("-")[0], part.split("-")[-1]) for part in ranges.group().split(",")]
    return max(1, sum(int(last) - int(first) + 1 for first, last in ends))
