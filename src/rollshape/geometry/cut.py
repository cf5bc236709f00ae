"""Cutting a rollout into minibatches: chosen, checked, or repaired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rollshape.errors import RequestError
from rollshape.geometry.divisors import nearest_divisor, surrounding_divisors
from rollshape.geometry.minibatch import (
    Remainder,
    Split,
    automatic_minibatch,
    shapes_dividing,
    split,
    split_by_count,
)
from rollshape.geometry.request import Request
from rollshape.geometry.solve import Shape, agreeing

MinibatchSource = Literal["auto", "user", "fixed"]
FULL_BATCH = ("a2c", "reinforce")
FAR = 2.0  # a repair that would change the minibatch by more than this factor changes the shape instead


@dataclass(frozen=True, slots=True)
class Cut:
    """A shape with the split of its rollout, where the minibatch came from, and what was repaired."""

    shape: Shape
    split: Split
    source: MinibatchSource
    reason: str
    repaired: str = ""


def cut_rollout(request: Request, shape: Shape) -> Cut:
    """Choose the minibatch, or check the one that was asked for."""
    rollout, size, count = shape.rollout_size, request.minibatch_size, request.num_minibatches
    if request.algo in FULL_BATCH:
        return _full_batch(request, shape)
    if size == "auto" and count is None:
        choice = automatic_minibatch(rollout)
        return Cut(shape, split(rollout, choice.size), "auto", choice.reason)
    if size == "auto":
        assert count is not None
        return _by_count(request, shape, count)
    if size <= rollout and rollout % size == 0:
        return Cut(shape, split(rollout, size), "user", "as asked")
    if request.on_remainder == "fix":
        return _repair(shape, size, f"minibatch_size {size:,}")
    if request.on_remainder == "warn" and size <= rollout:
        return Cut(shape, split(rollout, size, Remainder.DROP), "user", "as asked")
    raise _size_error(request, shape, size)


def _by_count(request: Request, shape: Shape, count: int) -> Cut:
    rollout = shape.rollout_size
    if rollout % count == 0:
        return Cut(shape, split(rollout, rollout // count), "user", f"rollout/{count:,}, as asked")
    if request.on_remainder == "fix":
        return _repair(shape, max(1, rollout // count), f"num_minibatches {count:,}")
    if request.on_remainder == "warn" and count < rollout:
        return Cut(shape, split_by_count(rollout, count, Remainder.DROP), "user", "as asked")
    counts = surrounding_divisors(rollout, count)
    shapes = shapes_dividing(shape.num_envs, shape.num_steps, count)[:2]
    same = _envs_and_steps(shape)
    raise RequestError(
        "divisibility",
        f"num_minibatches {count:,} does not divide the rollout {_product(shape)}: {_left_over(rollout % count)}.",
        f"Use num_minibatches {_either(counts)}; or keep {count:,} with {_shapes(shapes)}; or --on-remainder fix.",
        [agreeing(request, {**same, "num_minibatches": k}) for k in counts]
        + [agreeing(request, near) for near in shapes],
    )


def _full_batch(request: Request, shape: Shape) -> Cut:
    rollout = shape.rollout_size
    if request.minibatch_size not in ("auto", rollout) or request.num_minibatches not in (None, 1):
        raise RequestError(
            "full-batch",
            f"{request.algo} takes one gradient step on the whole rollout of {rollout:,}; "
            "a smaller minibatch contradicts it.",
            "Leave the minibatch out, or use --algo ppo.",
            [
                agreeing(request, {**_envs_and_steps(shape), "minibatch_size": rollout})
                | {"num_minibatches": 1, "num_epochs": 1}
            ],
        )
    return Cut(shape, split(rollout, rollout), "auto", f"the whole rollout: {request.algo} is full-batch")


def _repair(shape: Shape, size: int, asked: str) -> Cut:
    """The nearest legal cut: the minibatch gives way, unless that changes it by more than FAR."""
    rollout = shape.rollout_size
    legal = nearest_divisor(rollout, size)
    if max(legal / size, size / legal) <= FAR:
        note = (
            f"{asked} → minibatch_size {legal:,}, the nearest divisor of {rollout:,}: {rollout // legal:,} minibatches"
        )
        return Cut(shape, split(rollout, legal), "fixed", f"the nearest divisor of {rollout:,}", note)
    nearest = shapes_dividing(shape.num_envs, shape.num_steps, size)[0]
    fixed = Shape(**nearest, chosen=shape.chosen, repaired=shape.repaired)
    note = f"shape {_product(shape)} → {_product(fixed)}, so that minibatches of {size:,} divide it"
    return Cut(fixed, split(fixed.rollout_size, size), "fixed", f"in a rollout of {fixed.rollout_size:,}", note)


def _size_error(request: Request, shape: Shape, size: int) -> RequestError:
    rollout = shape.rollout_size
    sizes = surrounding_divisors(rollout, size)
    shapes = shapes_dividing(shape.num_envs, shape.num_steps, size)[:2]
    same = _envs_and_steps(shape)
    problem = f"is larger than the rollout {_product(shape)}"
    if size <= rollout:
        problem = f"does not divide the rollout {_product(shape)}: {_left_over(rollout % size)}"
    return RequestError(
        "divisibility",
        f"minibatch_size {size:,} {problem}.",
        f"Use minibatch_size {_either(sizes)}; or keep {size:,} with {_shapes(shapes)}; or --on-remainder fix.",
        [agreeing(request, {**same, "minibatch_size": fit}) for fit in sizes]
        + [agreeing(request, {**near, "minibatch_size": size}) for near in shapes],
    )


def _product(shape: Shape) -> str:
    return f"{shape.num_envs:,} × {shape.num_steps:,} = {shape.rollout_size:,}"


def _envs_and_steps(shape: Shape) -> dict[str, int]:
    return {"num_envs": shape.num_envs, "num_steps": shape.num_steps}


def _shapes(shapes: list[dict[str, Any]]) -> str:
    return " or ".join(_product(Shape(**shape)) for shape in shapes)


def _left_over(rest: int) -> str:
    return "1 sample is left over" if rest == 1 else f"{rest:,} samples are left over"


def _either(sizes: tuple[int, ...]) -> str:
    return " or ".join(f"{size:,}" for size in sizes)
