"""Rules for language model trainers: they apply to plans whose samples are completions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rollshape.geometry.rules.base import PAGES, Finding, page

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan

page(
    "completion-split",
    "TRL 1.16 (GRPOConfig), verl 0.9 (validate_config), OpenRLHF 0.11 (DeepspeedStrategy)",
    """prompts × generations must be a multiple of the completions per optimizer step, and those of GPUs × micro-batch.

    num_prompts × num_generations = num_minibatches × minibatch_size, and minibatch_size = gpus × microbatch_size ×
    gradient_accumulation_steps. TRL raises a ValueError if a generation batch does not contain whole groups, verl an
    AssertionError if a minibatch does not divide the batch, and DeepSpeed an AssertionError if GPUs × micro-batch do
    not divide the minibatch. `--on-remainder fix` uses the nearest legal sizes.
    """,
)
page(
    "group-size",
    "Shao et al. 2024 (GRPO); Ahmadian et al. 2024 (RLOO); TRL 1.16, OpenRLHF 0.11",
    """GRPO and RLOO need at least two completions per prompt.

    The baseline of a completion is the mean reward of its group. In a group of one it equals the reward, so every
    advantage is zero and nothing is learned. TRL and OpenRLHF raise an error; verl trains without a word.
    """,
)
page(
    "split-groups",
    "verl 0.9 (ppo_mini_batch_size counts prompts)",
    """A minibatch that is no multiple of num_generations contains parts of groups.

    Advantages are computed for the whole update first, so this is valid: a prompt's completions only contribute to
    different optimizer steps. TRL and OpenRLHF count a minibatch in completions and allow it. verl counts it in prompts
    and cannot express it.
    """,
)
page(
    "stale-completions",
    "Schulman et al. 2017 (clipped ratio); TRL's num_iterations and steps_per_generation",
    """After the first optimizer step of an update, the completions are from an older policy.

    With one minibatch and one epoch, every gradient is that of the policy that generated the completions, and the
    ratio is 1. With more, the clipped ratio corrects for the difference, and the old log-probabilities must be stored
    or computed once more.
    """,
)
page(
    "minibatch-accumulation",
    "TRL 1.12 (PPOTrainer), counted in tests/peers/test_trl_ppo.py",
    """TRL's PPOTrainer steps once every gradient_accumulation_steps micro-batches, whatever num_mini_batches says.

    It divides the batch of per_device_train_batch_size × gradient_accumulation_steps × GPUs completions into
    num_mini_batches, but accelerate counts micro-batches across them. With 4 × 2 completions and num_mini_batches 2,
    the trainer reports a mini_batch_size of 4, and the optimizer makes one step per epoch, on all 8. An epoch has
    num_mini_batches / gradient_accumulation_steps steps if that is a whole number, and one if its inverse is.
    """,
)


def completion_findings(plan: Plan) -> tuple[Finding, ...]:
    """Return the findings of a plan whose samples are completions."""
    return tuple(_findings(plan))


def _findings(plan: Plan) -> Iterator[Finding]:
    sizes = plan.completions
    assert sizes is not None
    if plan.minibatch_size % sizes.num_generations:
        yield Finding(
            "split-groups",
            "info",
            f"minibatch_size {plan.minibatch_size:,} is not a multiple of num_generations {sizes.num_generations:,}: "
            "some groups are split between optimizer steps. verl cannot express this.",
            "Valid in TRL and OpenRLHF; use a multiple for verl.",
            PAGES["split-groups"].source,
            {"minibatch_size": plan.minibatch_size, "num_generations": sizes.num_generations},
        )
    steps = plan.gradient_steps_per_update
    if steps > 1:
        yield Finding(
            "stale-completions",
            "info",
            f"{steps:,} optimizer steps per update: all but the first train on completions of an older policy.",
            "Watch the clip fraction; num_minibatches 1 and num_epochs 1 are on-policy.",
            PAGES["stale-completions"].source,
            {"gradient_steps_per_update": steps},
        )
