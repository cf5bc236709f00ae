"""Train a tiny random language model with TRL, and count generations, micro-batches and optimizer steps.

`python -m peers.drivers.trl_driver JSON` does so in a process of its own and prints JSON: for PPOTrainer, which is in
an older version of TRL, and for one of several ranks.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, Qwen2ForSequenceClassification

OLD_TRL = Path(sys.prefix) / "trl-1.12"  # the last minor version with PPOTrainer
PROMPTS = 96
_WORDS = ["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(29))]
_CONFIG = {
    "vocab_size": 32, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 64, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None,
}  # fmt: skip
_QUIET: dict[str, Any] = {
    "report_to": [], "use_cpu": True, "bf16": False, "save_strategy": "no", "logging_strategy": "no",
    "disable_tqdm": True, "gradient_checkpointing": False,
}  # fmt: skip
_LAUNCHER = ("num_processes",)  # flags of `accelerate launch`


@dataclass
class Trained:
    """What TRL really did, on this rank."""

    optimizer_steps: int
    generated: list[int]  # completions of each generation
    microbatches: list[int]  # completions of each forward and backward pass
    settings: dict[str, float]  # by Rollshape's names
    mini_batch_size: int | None = None  # as PPOTrainer computes it, over all GPUs


def train(kind: str, config: Mapping[str, Any]) -> Trained:
    """Train with the sizes of a config."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    values = {name: value for name, value in config.items() if name not in _LAUNCHER}
    with tempfile.TemporaryDirectory() as folder:
        settings = {**_QUIET, **values, "output_dir": folder}
        return _train_ppo(settings) if kind == "ppo" else _train_group(kind, settings)


def _train_group(kind: str, settings: dict[str, Any]) -> Trained:
    from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

    config_class, trainer_class = (GRPOConfig, GRPOTrainer) if kind == "grpo" else (RLOOConfig, RLOOTrainer)
    generated: list[int] = []
    microbatches: list[int] = []

    def reward(completions: list[str], **_: Any) -> list[float]:
        generated.append(len(completions))
        return [float(len(text) % 3) for text in completions]

    args = config_class(max_completion_length=4, **settings)
    prompts = Dataset.from_dict({"prompt": [f"w{i % 29} w{i * 7 % 29}" for i in range(PROMPTS)]})
    trainer = trainer_class(
        model=_model(), reward_funcs=reward, args=args, train_dataset=prompts, processing_class=_tokenizer()
    )
    loss = trainer.compute_loss

    def counted_loss(model: Any, inputs: Any, *rest: Any, **named: Any) -> Any:
        microbatches.append(len(inputs["completion_ids"]))
        return loss(model, inputs, *rest, **named)

    trainer.compute_loss = counted_loss
    steps = _count_steps()
    trainer.train()
    named = {
        "learning_rate": args.learning_rate, "max_grad_norm": args.max_grad_norm, "clip_range": args.epsilon,
    }  # fmt: skip
    return Trained(len(steps), generated, microbatches, named)


def _train_ppo(settings: dict[str, Any]) -> Trained:
    import trl.experimental.ppo.ppo_trainer as module
    from trl.experimental.ppo import PPOConfig, PPOTrainer

    microbatches: list[int] = []
    generated: list[int] = []
    args = PPOConfig(response_length=4, num_sample_generations=0, **settings)
    prompts = Dataset.from_dict({"input_ids": [[3 + i % 29, 3 + 7 * i % 29] for i in range(PROMPTS)]})
    trainer = PPOTrainer(
        args=args, processing_class=_tokenizer(), model=_model(), ref_model=_model(), reward_model=_scorer(),
        value_model=_scorer(), train_dataset=prompts, eval_dataset=prompts,
    )  # fmt: skip
    forward, generate = module.forward, module.batch_generation

    def counted_forward(model: Any, queries: Any, *rest: Any) -> Any:
        if torch.is_grad_enabled():
            microbatches.append(len(queries))
        return forward(model, queries, *rest)

    def counted_generation(model: Any, queries: Any, *rest: Any) -> Any:
        generated.append(len(queries))
        return generate(model, queries, *rest)

    module.forward, module.batch_generation = counted_forward, counted_generation
    steps = _count_steps()
    try:
        trainer.train()
    finally:
        module.forward, module.batch_generation = forward, generate
    named = {
        "learning_rate": args.learning_rate, "max_grad_norm": args.max_grad_norm, "clip_range": args.cliprange,
        "value_coef": args.vf_coef / 2, "gamma": args.gamma, "gae_lambda": args.lam, "kl_reward_coef": args.kl_coef,
    }  # fmt: skip
    return Trained(len(steps), generated, microbatches, named, args.mini_batch_size)


def _count_steps() -> list[int]:
    """Return a list that grows with every step of an optimizer of torch, until the next call."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    global _hook
    if _hook is not None:
        _hook.remove()
    steps: list[int] = []
    _hook = register_optimizer_step_post_hook(lambda *_: steps.append(1))
    return steps


_hook: Any = None


def _model() -> Any:
    return Qwen2ForCausalLM(Qwen2Config(**_CONFIG))


def _scorer() -> Any:
    return Qwen2ForSequenceClassification(Qwen2Config(**_CONFIG, num_labels=1))


def _tokenizer() -> Any:
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(_WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def _results(cases: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    results = []
    for kind, config in cases:
        try:
            results.append(asdict(train(kind, config)))
        except ValueError as error:
            results.append({"error": f"{type(error).__name__}: {error}"})
    return results


if __name__ == "__main__":
    if "--old-trl" in sys.argv:
        sys.path.insert(0, str(OLD_TRL))
    print("\n" + json.dumps(_results(json.loads(sys.argv[1]))))
