"""The shards and the microbatch of a run: as asked, or by formula. Both fix the order of sums, so the spec decides."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rollshape.envs.spaces import Observation
from rollshape.errors import RequestError
from rollshape.geometry.divisors import divisors
from rollshape.geometry.layout import auto_microbatch, auto_shards
from rollshape.geometry.memory import network_size
from rollshape.geometry.plan import Plan
from rollshape.geometry.request import Request
from rollshape.training.spec import Spec, checked_spec


@dataclass(frozen=True)
class Layout:
    """Shards S of the environments, and the samples that one gradient kernel sees."""

    num_shards: int
    microbatch_size: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def layout(spec: Spec, plan: Plan, observation: Observation, num_outputs: int) -> Layout:
    """The layout of a run; a RequestError where the asked one does not divide."""
    checked_spec(spec)
    auto = spec.num_shards == "auto"
    shards = auto_shards(plan.num_envs, plan.minibatch_size) if auto else int(spec.num_shards)
    for name, size in (("num_envs", plan.num_envs), ("minibatch_size", plan.minibatch_size)):
        if size % shards:
            legal = [d for d in divisors(plan.num_envs) if plan.minibatch_size % d == 0]
            raise RequestError(
                "layout",
                f"{name} = {size} is no multiple of num_shards = {shards}.",
                f"Choose one of {', '.join(map(str, legal))}.",
            )
    part = plan.minibatch_size // shards
    if spec.microbatch_size == "auto":
        request = Request(obs_shape=observation.shape, hidden_sizes=spec.hidden_sizes)
        micro = auto_microbatch(network_size(request, num_outputs, 1)[1], part)
    else:
        micro = spec.microbatch_size
    if part % micro:
        raise RequestError(
            "layout",
            f"A shard's part of a minibatch, {part} samples, is no multiple of microbatch_size = {micro}.",
            f"Choose a divisor of {part}.",
        )
    return Layout(shards, micro)
