"""Partitioning a rollout into minibatches: choose a size, check the requested one, or repair it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from rollshape.errors import RequestError
from rollshape.geometry.algorithms import RULES
from rollshape.geometry.divisors import surrounding_divisors
from rollshape.geometry.grain import Grain, legal_minibatch
from rollshape.geometry.minibatch import (
    Remainder,
    Split,
    automatic_minibatch,
    nearest_shapes,
    split,
    split_by_count,
)
from rollshape.geometry.request import Request
from rollshape.geometry.solve import Shape, consistent_alternative
from rollshape.geometry.values import MOST_SAMPLES

MinibatchSource = Literal["auto", "user", "fixed"]
LARGEST_CHANGE = 2  # a repair that would change the minibatch by more than this factor changes the shape instead


@dataclass(frozen=True, slots=True)
class Partition:
    """A shape with the split of its rollout, the source of the minibatch size, and what was repaired."""

    shape: Shape
    split: Split
    source: MinibatchSource
    reason: str
    repaired: str = ""


def partition_rollout(request: Request, shape: Shape) -> Partition:
    """Choose the minibatch size, or check the requested one."""
    rollout, size, count = shape.rollout_size, request.minibatch_size, request.num_minibatches
    if RULES[request.algo].full_batch:
        return _full_batch(request, shape)
    unit = Grain.of(request).minibatch_unit(shape.num_steps)
    if size == "auto" and count is None:
        choice = automatic_minibatch(rollout, unit)
        return Partition(shape, split(rollout, choice.size), "auto", choice.reason)
    if size == "auto":
        assert count is not None
        return _by_count(request, shape, count)
    if size <= rollout and rollout % size == 0 and size % unit == 0:
        return Partition(shape, split(rollout, size), "user", "requested")
    if request.on_remainder == "fix":
        return _repair(request, shape, size, f"minibatch_size {size:,}")
    if request.on_remainder == "warn" and size <= rollout and size % unit == 0:
        return Partition(shape, split(rollout, size, Remainder.DROP), "user", "requested")
    raise _size_error(request, shape, size)


def _by_count(request: Request, shape: Shape, count: int) -> Partition:
    rollout, unit = shape.rollout_size, Grain.of(request).minibatch_unit(shape.num_steps)
    units = rollout // unit
    if units % count == 0:
        return Partition(shape, split(rollout, rollout // count), "user", f"rollout/{count:,}, requested")
    if request.on_remainder == "fix":
        return _repair(request, shape, max(1, rollout // count), f"num_minibatches {count:,}")
    if request.on_remainder == "warn" and count < units:
        return Partition(shape, split_by_count(units, count, Remainder.DROP).scaled(unit), "user", "requested")
    counts = surrounding_divisors(units, count)
    shapes = _shapes(request, shape, count * unit)[:2]
    same = _envs_and_steps(shape)
    rest = _left_over(rollout % count) if unit == 1 else f"it has {units:,} {_units(request, unit)}"
    raise RequestError(
        "divisibility",
        f"num_minibatches {count:,} does not divide the rollout {shape}: {rest}.",
        f"Use num_minibatches {_either(counts)};{_keep(count, shape, shapes)} or --on-remainder fix.",
        [consistent_alternative(request, {**same, "num_minibatches": k}) for k in counts]
        + [consistent_alternative(request, near) for near in shapes],
    )


def _full_batch(request: Request, shape: Shape) -> Partition:
    rollout = shape.rollout_size
    if request.minibatch_size not in ("auto", rollout) or request.num_minibatches not in (None, 1):
        raise RequestError(
            "full-batch",
            f"{request.algo} takes one gradient step on the whole rollout of {rollout:,} samples; "
            "it cannot use smaller minibatches.",
            "Leave the minibatch size out, or use --algo ppo.",
            [
                consistent_alternative(request, {**_envs_and_steps(shape), "minibatch_size": rollout})
                | {"num_minibatches": 1, "num_epochs": 1}
            ],
        )
    return Partition(shape, split(rollout, rollout), "auto", f"whole rollout: {request.algo} is full-batch")


def _repair(request: Request, shape: Shape, size: int, requested: str) -> Partition:
    """Return the nearest valid partition: change the minibatch, or the shape if that changes M less."""
    rollout, unit = shape.rollout_size, Grain.of(request).minibatch_unit(shape.num_steps)
    divisor, shapes = legal_minibatch(rollout, unit, size), _shapes(request, shape, size)
    if max(divisor, size) <= LARGEST_CHANGE * min(divisor, size) or not shapes:
        count = rollout // divisor
        note = f"{requested} → minibatch_size {divisor:,}, the nearest divisor of {rollout:,}: {count:,} minibatches"
        return Partition(shape, split(rollout, divisor), "fixed", f"the nearest divisor of {rollout:,}", note)
    fixed = replace(shape, **shapes[0])
    note = f"shape {shape} → {fixed}, a multiple of minibatch_size {size:,}"
    return Partition(fixed, split(fixed.rollout_size, size), "fixed", f"in a rollout of {fixed.rollout_size:,}", note)


def _size_error(request: Request, shape: Shape, size: int) -> RequestError:
    rollout, unit = shape.rollout_size, Grain.of(request).minibatch_unit(shape.num_steps)
    sizes = tuple(unit * part for part in surrounding_divisors(rollout // unit, Fraction(size, unit)))
    shapes = _shapes(request, shape, size)[:2]
    same = _envs_and_steps(shape)
    problem = f"is larger than the rollout {shape}"
    if size <= rollout:
        problem = f"does not divide the rollout {shape}: {_left_over(rollout % size)}"
    if size % unit:
        problem = f"is not a multiple of {_units(request, unit)}, of which every minibatch consists"
    return RequestError(
        "divisibility",
        f"minibatch_size {size:,} {problem}.",
        f"Use minibatch_size {_either(sizes)};{_keep(size, shape, shapes)} or --on-remainder fix.",
        [consistent_alternative(request, {**same, "minibatch_size": divisor}) for divisor in sizes]
        + [consistent_alternative(request, {**near, "minibatch_size": size}) for near in shapes],
    )


def _shapes(request: Request, shape: Shape, size: int) -> list[dict[str, Any]]:
    """Return the nearest shapes whose rollout is a multiple of `size`, in whole sequences and ranks."""
    grain = Grain.of(request)
    if grain == Grain():
        return nearest_shapes(shape.num_envs, shape.num_steps, size)
    if size % grain.minibatch_unit(shape.num_steps):
        return []
    steps = None if grain.whole_envs else grain.steps_step(size, shape.num_envs)
    near = nearest_shapes(shape.num_envs, shape.num_steps, size, grain.envs_step(size, shape.num_steps), steps)
    return [sizes for sizes in near if replace(shape, **sizes).rollout_size <= MOST_SAMPLES]


def _units(request: Request, unit: int) -> str:
    """Describe the samples of which every minibatch contains a multiple."""
    if request.recurrent:
        ranks = f" on each of {request.world_size:,} processes" if request.world_size > 1 else ""
        return f"sequences of {unit // request.world_size:,} steps{ranks}"
    return f"{unit:,} samples (one per process)"


def _envs_and_steps(shape: Shape) -> dict[str, int]:
    return {"num_envs": shape.num_envs, "num_steps": shape.num_steps}


def _keep(value: int, shape: Shape, shapes: list[dict[str, Any]]) -> str:
    listed = " or ".join(str(replace(shape, **near)) for near in shapes)
    return f" or keep {value:,} with {listed};" if shapes else ""


def _left_over(rest: int) -> str:
    return "1 sample is left over" if rest == 1 else f"{rest:,} samples are left over"


def _either(sizes: tuple[int, ...]) -> str:
    return " or ".join(f"{size:,}" for size in sizes)
