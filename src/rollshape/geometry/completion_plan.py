"""Planning the batch of a language model trainer: `rollshape plan --algo grpo`.

N = num_prompts × num_generations completions per update = num_minibatches × minibatch_size, and minibatch_size =
world_size × microbatch_size × gradient_accumulation_steps. Any subset of these may be given.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import Annotated, Any, Literal

from rollshape.errors import RequestError
from rollshape.geometry.completions import (
    BatchSplit,
    CompletionAlgo,
    CompletionSizes,
    automatic_microbatch,
    nearest_split,
)
from rollshape.geometry.fields import new_record
from rollshape.geometry.plan import Plan
from rollshape.geometry.rules.completions import completion_findings
from rollshape.geometry.values import BUDGET, MOST_SAMPLES, POSITIVE, Range

_SIZE, _COUNT = Range(1, 2**32), Range(1, 2**16)
_DEFAULT_PROMPTS = 32
_DEFAULT_GENERATIONS: dict[CompletionAlgo, int] = {"grpo": 8, "rloo": 4}


@dataclass(frozen=True, kw_only=True)
class CompletionRequest:
    """A partly specified batch of a language model trainer; every field that is left out is derived or chosen."""

    algo: Annotated[CompletionAlgo, "training algorithm"] = "grpo"
    num_prompts: Annotated[int | None, "P, prompts per update", _SIZE] = None
    num_generations: Annotated[int | None, "G, completions per prompt (default: 8 for GRPO, 4 for RLOO)", _COUNT] = None
    rollout_size: Annotated[int | None, "N = P·G, completions per update", _SIZE] = None
    minibatch_size: Annotated[int | Literal["auto"], "M, completions per optimizer step, on all GPUs", _SIZE] = "auto"
    num_minibatches: Annotated[int | None, "K, optimizer steps per epoch (default: 1)", _COUNT] = None
    microbatch_size: Annotated[int | Literal["auto"], "m, completions per GPU and forward/backward pass", _SIZE] = (
        "auto"
    )
    gradient_accumulation_steps: Annotated[int | None, "A, micro-batches per optimizer step and GPU", _COUNT] = None
    world_size: Annotated[
        int, "W, data-parallel GPUs, also --gpus (those that share one model replica count once)", _COUNT
    ] = 1
    num_epochs: Annotated[int, "passes over the completions of an update (μ of GRPO)", _COUNT] = 1
    num_updates: Annotated[int | None, "budget: number of updates", BUDGET] = None
    dataset_size: Annotated[int | None, "prompts in the dataset, to compute the budget", BUDGET] = None
    data_epochs: Annotated[float, "passes over the dataset", POSITIVE] = 1.0
    on_remainder: Annotated[Literal["error", "fix"], "what to do if the sizes do not divide"] = "error"


def plan_completions(request: CompletionRequest | None = None, /, **changes: Any) -> Plan:
    """Plan from any subset of the fields of `CompletionRequest`: `plan_completions(num_prompts=32, world_size=4)`."""
    request = new_record(CompletionRequest, request, changes)
    generations = request.num_generations or _DEFAULT_GENERATIONS[request.algo]
    if generations < 2:
        raise RequestError(
            "group-size",
            f"{request.algo} compares the completions of one prompt: num_generations {generations} is not enough.",
            "Use num_generations 2 or more.",
            [{"num_generations": 2}],
        )
    target = _target(request, generations)
    split, problem = target, _problem(request, target, generations)
    repaired: tuple[str, ...] = ()
    if problem:
        split = nearest_split(target, generations, request.world_size)
        if request.on_remainder == "error":
            raise _remainder_error(request, problem, split, generations)
        repaired = (f"{problem}; nearest: {_describe_sizes(split, generations)}",)
    return new_plan(
        request.algo,
        split,
        generations,
        request.world_size,
        num_epochs=request.num_epochs,
        num_updates=_num_updates(request, split.rollout_size // generations),
        chosen=_chosen(request),
        repaired=repaired,
    )


def new_plan(
    algo: Any,
    split: BatchSplit,
    generations: int,
    gpus: int,
    *,
    num_epochs: int,
    num_updates: int | None,
    chosen: tuple[str, ...] = (),
    repaired: tuple[str, ...] = (),
    reason: str = "",
) -> Plan:
    """Return the plan of a legal split: an environment is a completion, and a rollout has one step."""
    n, size = split.rollout_size, split.minibatch_size
    count = n // size
    steps = num_epochs * count
    result = Plan(
        algo=algo,
        num_envs=n,
        num_steps=1,
        gae_window=1,
        rollout_size=n,
        minibatch_size=size,
        minibatch_source="auto" if "minibatch_size" in chosen else "user",
        minibatch_reason=reason,
        num_minibatches=count,
        last_minibatch_size=size,
        num_epochs=num_epochs,
        world_size=gpus,
        total_timesteps=None if num_updates is None else num_updates * n,
        actual_timesteps=None if num_updates is None else num_updates * n,
        num_updates=num_updates,
        gradient_steps=None if num_updates is None else num_updates * steps,
        gradient_steps_per_update=steps,
        sample_reuse=float(num_epochs),
        chosen=chosen,
        repaired=repaired,
        completions=CompletionSizes(
            num_prompts=n // generations,
            num_generations=generations,
            microbatch_size=split.microbatch_size,
            gradient_accumulation_steps=size // (gpus * split.microbatch_size),
        ),
    )
    return result.attach_findings(completion_findings(result))


def _target(request: CompletionRequest, generations: int) -> BatchSplit:
    """Return the requested sizes, each derived from the others where it is not given; they need not divide."""
    micro, steps, gpus = request.microbatch_size, request.gradient_accumulation_steps, request.world_size
    size: int | None = None if request.minibatch_size == "auto" else request.minibatch_size
    if micro != "auto" and steps is not None:
        size = _agree("minibatch_size", size, gpus * micro * steps, f"{gpus:,} GPUs × {micro:,} × {steps:,}")
    rollout = request.rollout_size
    if request.num_prompts is not None:
        what = f"{request.num_prompts:,} prompts × {generations:,} generations"
        rollout = _agree("rollout_size", rollout, request.num_prompts * generations, what)
    if request.num_minibatches is not None and size is not None:
        what = f"{request.num_minibatches:,} minibatches × {size:,}"
        rollout = _agree("rollout_size", rollout, request.num_minibatches * size, what)
    if rollout is None:
        rollout = size or _default_rollout(request, generations)
        rollout = lcm(rollout, generations) if size is not None else rollout
    if size is None:
        size = max(1, rollout // (request.num_minibatches or 1))
    share = max(1, size // gpus)
    chosen = automatic_microbatch(share) if steps is None else max(1, share // steps)
    if max(rollout, size) > MOST_SAMPLES:
        raise RequestError("whole-number", f"An update of {rollout:,} completions is too large.", "Check the sizes.")
    return BatchSplit(rollout, size, chosen if micro == "auto" else micro)


def _default_rollout(request: CompletionRequest, generations: int) -> int:
    """Return about 32 prompts' completions, as a number that the given counts divide."""
    micro = 1 if request.microbatch_size == "auto" else request.microbatch_size
    count = (request.num_minibatches or 1) * (request.gradient_accumulation_steps or 1) * micro
    unit = lcm(request.world_size * count, generations)
    return max(1, round(_DEFAULT_PROMPTS * generations / unit)) * unit


def _agree(name: str, given: int | None, derived: int, what: str) -> int:
    if given is not None and given != derived:
        raise RequestError(
            "contradiction",
            f"{name} {given:,} contradicts {what} = {derived:,}.",
            f"Leave one of them out, or use {name} {derived:,}.",
            [{name: derived}],
        )
    return derived


def _remainder_error(request: CompletionRequest, problem: str, nearest: BatchSplit, generations: int) -> RequestError:
    alternative = {
        "num_prompts": nearest.rollout_size // generations,
        "num_generations": generations,
        "minibatch_size": nearest.minibatch_size,
        "microbatch_size": nearest.microbatch_size,
        "gradient_accumulation_steps": nearest.minibatch_size // (request.world_size * nearest.microbatch_size),
        "world_size": request.world_size,
    }
    fix = f"Use {_describe_sizes(nearest, generations)}; --on-remainder fix does so."
    return RequestError("completion-split", f"{problem}.", fix, [alternative])


def _problem(request: CompletionRequest, split: BatchSplit, generations: int) -> str:
    """Say which of the divisions has a remainder; an empty string if none has."""
    n, size, micro, gpus = split.rollout_size, split.minibatch_size, split.microbatch_size, request.world_size
    count, steps = request.num_minibatches, request.gradient_accumulation_steps
    if n % generations:
        return f"{n:,} completions per update are not whole groups of num_generations {generations:,}"
    if count is not None and n != count * size:
        return f"{n:,} completions per update are not a multiple of num_minibatches {count:,}"
    if n % size:
        return f"{n:,} completions per update are not a multiple of minibatch_size {size:,}"
    if steps is not None and size != gpus * micro * steps:
        return (
            f"{size:,} completions per optimizer step are not a multiple of {gpus:,} GPUs × "
            f"gradient_accumulation_steps {steps:,} = {gpus * steps:,}"
        )
    if size % (gpus * micro):
        return (
            f"{size:,} completions per optimizer step are not a multiple of {gpus:,} GPUs × microbatch_size {micro:,} "
            f"= {gpus * micro:,}"
        )
    return ""


def _describe_sizes(split: BatchSplit, generations: int) -> str:
    return (
        f"num_prompts {split.rollout_size // generations:,}, num_generations {generations:,}, minibatch_size "
        f"{split.minibatch_size:,}, microbatch_size {split.microbatch_size:,}"
    )


def _num_updates(request: CompletionRequest, prompts: int) -> int | None:
    if request.num_updates is not None or request.dataset_size is None:
        return request.num_updates
    updates = int(request.dataset_size // prompts * request.data_epochs)
    if updates == 0:
        raise RequestError(
            "zero-updates",
            f"{request.dataset_size:,} prompts × {request.data_epochs:g} epochs are less than one update of "
            f"{prompts:,} prompts: nothing would be trained.",
            "Use fewer prompts per update, or more epochs.",
            [{"num_prompts": request.dataset_size}],
        )
    return updates


def _chosen(request: CompletionRequest) -> tuple[str, ...]:
    """Return the sizes that the planner chose itself."""
    given = {name for name, value in vars(request).items() if value not in (None, "auto")}
    chosen = {"num_generations"} - given
    if not given & {"num_prompts", "rollout_size"}:
        chosen.add("num_prompts")
    if not given & {"minibatch_size", "num_minibatches"} and not {"microbatch_size", "gradient_accumulation_steps"} <= (
        given
    ):
        chosen.add("minibatch_size")
    if not given & {"microbatch_size", "gradient_accumulation_steps"}:
        chosen.add("microbatch_size")
    return tuple(sorted(chosen))
