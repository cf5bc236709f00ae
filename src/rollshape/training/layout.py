"""How a minibatch is laid over the machine: logical shards and microbatches, by formula and never by timing.

Both fix the order of sums, so they are fields of the spec (or follow from it), and the number of cores that happen to
run it changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.divisors import divisors
from rollshape.geometry.plan import Plan
from rollshape.training.spec import Spec, checked_spec

SHARD_SAMPLES, SHARD_ENVS = 512, 16  # below these a second core costs more than it brings
CACHE_BYTES = 4_000_000  # activations of a microbatch: what two cores' caches hold
COPIES = 3  # of each activation: itself, its derivative, its error


@dataclass(frozen=True)
class Layout:
    """Shards S of the environments, and the samples that one gradient kernel sees."""

    num_shards: int
    microbatch_size: int

    def to_dict(self) -> dict[str, Any]:
        return {"num_shards": self.num_shards, "microbatch_size": self.microbatch_size}


def layout(spec: Spec, plan: Plan) -> Layout:
    """The layout of a run; a RequestError where the asked one does not divide."""
    checked_spec(spec)
    shards = _auto_shards(plan) if spec.num_shards == "auto" else spec.num_shards
    for name, size in (("num_envs", plan.num_envs), ("minibatch_size", plan.minibatch_size)):
        if size % shards:
            legal = [d for d in divisors(plan.num_envs) if plan.minibatch_size % d == 0]
            raise RequestError(
                "layout",
                f"{name} = {size} is no multiple of num_shards = {shards}.",
                f"Choose one of {', '.join(map(str, legal))}.",
            )
    part = plan.minibatch_size // shards
    micro = _auto_microbatch(spec, part) if spec.microbatch_size == "auto" else spec.microbatch_size
    if part % micro:
        raise RequestError(
            "layout",
            f"A shard's part of a minibatch, {part} samples, is no multiple of microbatch_size = {micro}.",
            f"Choose a divisor of {part}.",
        )
    return Layout(shards, micro)


def _auto_shards(plan: Plan) -> int:
    """Two where both halves are worth a core (`benchmarks/train.py`): on a CPU, where a device is only a thread."""
    halves = plan.num_envs % 2 == 0 and plan.minibatch_size % 2 == 0
    worth = plan.minibatch_size >= 2 * SHARD_SAMPLES and plan.num_envs >= 2 * SHARD_ENVS
    return 2 if halves and worth else 1


def _auto_microbatch(spec: Spec, part: int) -> int:
    """The largest divisor of a shard's part whose activations fit the cache; not below a quarter of what fits."""
    fits = max(1, CACHE_BYTES // (COPIES * 4 * 2 * sum(spec.hidden_sizes or (64,))))
    if part <= fits:
        return part
    size = max(d for d in divisors(part) if d <= fits)
    return size if size >= fits // 4 else part
