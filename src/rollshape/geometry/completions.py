"""Batch sizes of language model trainers: prompts × generations, split over optimizer steps, GPUs and micro-batches.

A sample is one completion. An update generates N = P·G completions (P prompts, G generations of each) and trains on
them for `num_epochs` passes of K optimizer steps; each step uses M = N/K completions, as W·m·A: on each of W GPUs, A
accumulated micro-batches of m completions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import lcm, log
from typing import Final, Literal, get_args

from rollshape.geometry.divisors import divisors, nearest_divisor, surrounding_multiples

CompletionAlgo = Literal["grpo", "rloo"]
COMPLETION_ALGORITHMS: tuple[CompletionAlgo, ...] = get_args(CompletionAlgo)
LARGEST_MICROBATCH: Final = 8  # completions per GPU, if none is given: the default of TRL
_SMALL_MICROBATCHES: Final = 64  # up to here every smaller micro-batch is tried, above it divisors only


@dataclass(frozen=True, kw_only=True, slots=True)
class CompletionSizes:
    """The part of a plan that only language model trainers have.

    `microbatch_size` is the number of completions per GPU and forward/backward pass. The plan's `world_size` is the
    number of data-parallel GPUs; those that share one model replica (tensor, pipeline or sequence parallelism) count
    once.
    """

    num_prompts: int
    num_generations: int
    microbatch_size: int
    gradient_accumulation_steps: int


@dataclass(frozen=True, slots=True)
class BatchSplit:
    """Completions per update (N), per optimizer step (M), and per GPU and micro-batch (m)."""

    rollout_size: int
    minibatch_size: int
    microbatch_size: int


def is_legal(split: BatchSplit, generations: int, gpus: int, *, whole_groups: bool = False) -> bool:
    """Return whether a split has no remainder; with `whole_groups`, each optimizer step uses whole groups, too."""
    n, m = split.rollout_size, split.minibatch_size
    unit = generations if whole_groups else 1
    return n % generations == 0 and n % m == 0 and m % unit == 0 and m % (gpus * split.microbatch_size) == 0


def nearest_split(target: BatchSplit, generations: int, gpus: int, *, whole_groups: bool = False) -> BatchSplit:
    """Return the nearest legal split: N and K = N/M change least; m, which only decreases, counts half."""
    if is_legal(target, generations, gpus, whole_groups=whole_groups):
        return target
    candidates = _candidates(target, generations, gpus, whole_groups)
    return min(candidates, key=lambda split: _distance(split, target))


def _distance(split: BatchSplit, target: BatchSplit) -> float:
    rollout = split.rollout_size / target.rollout_size
    count = rollout * target.minibatch_size / split.minibatch_size
    micro = split.microbatch_size / target.microbatch_size
    return abs(log(rollout)) + abs(log(count)) + abs(log(micro)) / 2


def _candidates(target: BatchSplit, generations: int, gpus: int, whole_groups: bool) -> Iterator[BatchSplit]:
    """Yield legal splits near the target, for every micro-batch that is not larger."""
    most = target.microbatch_size
    for micro in sorted({*range(1, min(most, _SMALL_MICROBATCHES) + 1), *divisors(most)}):
        unit = gpus * micro
        step = lcm(unit, generations) if whole_groups else unit
        for rollout in surrounding_multiples(target.rollout_size, lcm(unit, generations)):
            count = nearest_divisor(rollout // step, Fraction(target.rollout_size, target.minibatch_size))
            yield BatchSplit(rollout, rollout // count, micro)


def automatic_microbatch(per_gpu: int) -> int:
    """Return the largest micro-batch of at most 8 completions that divides a GPU's share of an optimizer step."""
    return max(size for size in divisors(per_gpu) if size <= LARGEST_MICROBATCH)
