"""OpenRLHF (train_ppo_ray)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rollshape.geometry.completions import BatchSplit, automatic_microbatch
from rollshape.geometry.dialects.behaviors import Shuffle
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.language import GROUP_ALGORITHMS, CompletionRecipe, LanguageDialect, new_recipe
from rollshape.geometry.dialects.recipe import Recipe

_NODES, _RING, _TENSOR = "actor.num_nodes", "ds.ring_attn_size", "ds.tensor_parallel_size"
_DYNAMIC, _ESTIMATOR, _KL_LOSS = "train.dynamic_batch_enable", "algo.advantage.estimator", "algo.kl.use_loss"


class OpenRLHF(LanguageDialect):
    """`rollout.batch_size` counts prompts, `train.batch_size` completions on all GPUs, micro-batches those of one GPU.

    Versions before 0.10 have flat names (`rollout_batch_size`, `train_batch_size`, `micro_train_batch_size`), which
    are read, too.
    """

    name = "openrlhf"
    library = "OpenRLHF train_ppo_ray"
    version = "0.11.2"
    layout = "dotted"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("rollout.batch_size", "num_prompts", 1024, aliases=("rollout_batch_size",)),
        Key("rollout.n_samples_per_prompt", "num_generations", 1, aliases=("n_samples_per_prompt",)),
        Key("train.batch_size", "minibatch_size", 128, aliases=("train_batch_size",)),
        Key("train.micro_batch_size", "microbatch_size", 1, aliases=("micro_train_batch_size",)),
        Key("train.max_epochs", "num_epochs", 1, aliases=("max_epochs",)),
        Key("actor.num_gpus_per_node", "world_size", 8, aliases=("actor_num_gpus_per_node",)),
        Key(_NODES, EXTRA, 1, aliases=("actor_num_nodes",)),
        Key(_RING, EXTRA, 1, aliases=("ring_attn_size",)),
        Key(_TENSOR, EXTRA, 1, aliases=("ds_tensor_parallel_size",)),
        Key(_DYNAMIC, EXTRA, False, aliases=("use_dynamic_batch",)),
        Key(_ESTIMATOR, EXTRA, "gae", aliases=("advantage_estimator",)),
        Key(_KL_LOSS, EXTRA, False, aliases=("use_kl_loss",)),
        Key("train.num_episodes", "data_epochs", 1, aliases=("num_episodes",)),
        Key("actor.adam.lr", "learning_rate", 1e-6, aliases=("actor_learning_rate",)),
        Key("actor.max_norm", "max_grad_norm", 1.0, aliases=("max_norm",)),
        Key("actor.eps_clip", "clip_range", 0.2, aliases=("eps_clip",)),
        Key("algo.kl.init_coef", "kl_reward_coef", 0.01, aliases=("init_kl_coef",), off=0.0),
        Key("algo.advantage.gamma", "gamma", 1.0, aliases=("gamma",)),
        Key("algo.advantage.lambd", "gae_lambda", 1.0, aliases=("lambd",)),
    )
    estimator_key = _ESTIMATOR
    estimators: ClassVar[Mapping[str, tuple[str, str]]] = {
        "group_norm": ("grpo", "grpo"),
        "dr_grpo": ("dr grpo", "grpo"),
        "reinforce_baseline": ("reinforce++ baseline", "grpo"),
        "rloo": ("rloo", "rloo"),
        "gae": ("gae", "ppo"),
        "reinforce": ("reinforce++", "reinforce"),
        "flash_reinforce": ("flash reinforce", "reinforce"),
    }
    remainder_detail = (
        "AssertionError of DeepSpeed if GPUs × micro-batch do not divide train.batch_size; completions that fill no "
        "optimizer step are added to the first step of the next update"
    )
    shuffle = Shuffle.COMPLETIONS_EACH_EPOCH
    schedule = "cosine to a tenth, after a warmup of 3 %"
    other_keys = frozenset(
        {
            "rollout.micro_batch_size", "micro_rollout_batch_size", "vllm_generate_batch_size", "micro_batch_size",
            "eval_n_samples_per_prompt", "ref_num_gpus_per_node", "critic_num_gpus_per_node",
            "reward_num_gpus_per_node", "num_gpus_per_node",
        }
    )  # fmt: skip
    notes: ClassVar[tuple[str, ...]] = (
        "train.batch_size counts completions, rollout.batch_size prompts",
        "the budget is train.num_episodes passes over the prompts; there is no key for a number of updates",
    )

    def read_sizes(self, sizes: Mapping[str, Any]) -> CompletionRecipe:
        generations, micro = sizes["num_generations"], sizes["microbatch_size"]
        gpus, parallel = sizes["world_size"] * (sizes.get(_NODES) or 1), _replica_gpus(sizes)
        replicas = max(1, gpus // parallel)
        rollout, size = sizes["num_prompts"] * generations, sizes["minibatch_size"]
        kind = self.read_estimator(str(sizes.get(_ESTIMATOR)))
        if sizes.get(_DYNAMIC):
            micro = automatic_microbatch(max(1, size // replicas))
        refusal = ""
        if gpus % parallel:
            refusal = f"{gpus} GPUs are not a multiple of ring_attn_size × tensor_parallel_size = {parallel}"
        elif generations < 2 and kind["algo"] in GROUP_ALGORITHMS:
            refusal = f"AssertionError: {sizes[_ESTIMATOR]} requires n_samples_per_prompt > 1"
        elif size % (replicas * micro):
            refusal = (
                f"AssertionError: train_batch_size {size} is not equal to micro_batch_per_gpu {micro} * "
                f"gradient_acc_step * world_size {replicas}"
            )
        elif rollout % size:
            refusal = (
                f"{rollout} completions per update are not a multiple of train.batch_size {size}; OpenRLHF accepts "
                "this, and optimizer steps then mix completions of two updates"
            )
        return new_recipe(
            BatchSplit(rollout, size, micro),
            sizes,
            **kind,
            num_generations=generations,
            world_size=replicas,
            refusal=refusal,
            extra={key.name: sizes.get(key.name) for key in self.keys if key.concept == EXTRA},
        )

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        assert isinstance(recipe, CompletionRecipe)
        nodes = recipe.extra.get(_NODES) or 1
        return {
            "num_prompts": recipe.num_prompts,
            "num_generations": recipe.num_generations,
            "minibatch_size": recipe.minibatch_size,
            "microbatch_size": None if recipe.extra.get(_DYNAMIC) else recipe.microbatch_size,
            "num_epochs": recipe.num_epochs,
            "world_size": recipe.world_size * _replica_gpus(recipe.extra) // nodes,
            _ESTIMATOR: self.write_estimator(recipe),
        }

    def parse_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        hyper = super().parse_hyper(values)
        if values.get(_KL_LOSS) and "kl_reward_coef" in hyper:
            hyper["kl_loss_coef"] = hyper.pop("kl_reward_coef")
        if values.get(_ESTIMATOR, "gae") != "gae":
            hyper = {concept: value for concept, value in hyper.items() if concept not in ("gamma", "gae_lambda")}
        return hyper

    def emit_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        in_loss = "kl_loss_coef" in hyper
        values = super().emit_hyper({**hyper, "kl_reward_coef": hyper["kl_loss_coef"]} if in_loss else hyper)
        return values | {_KL_LOSS: in_loss}


def _replica_gpus(sizes: Mapping[str, Any]) -> int:
    """Return the number of GPUs that share one model replica."""
    return int((sizes.get(_RING) or 1) * (sizes.get(_TENSOR) or 1))
