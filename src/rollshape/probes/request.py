"""Options of a probe: one dataclass is the request, its documentation and its command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from rollshape.errors import RequestError
from rollshape.formatting import short_repr
from rollshape.geometry.divisors import is_prime
from rollshape.geometry.fields import new_record
from rollshape.geometry.values import COUNT, MOST_FLOAT, SEED, Range

MIN_BATCHES = 3  # fewer give no interval
MAX_ENVS = 2**20
BATCHES = Range(MIN_BATCHES, 4096)
HORIZON = Range(1, MOST_FLOAT)  # updates
PARTS = ("sizes", "batches", "critic", "noises", "phases", "pictures")  # optional parts of a probe


@dataclass(frozen=True, kw_only=True)
class ProbeRequest:
    """Measure the gradient statistics of a run and predict them for every other split of its rollout size."""

    rollout_size: Annotated[int | None, "N·T whose splits are compared (default: that of the run)", COUNT] = None
    num_batches: Annotated[int, "number of independent batches of the run's shape to collect", BATCHES] = 32
    start: Annotated[
        Literal["stationary", "run"],
        "start from fresh environments after a burn-in, or from the environment states of the run",
    ] = "stationary"
    horizon: Annotated[
        float | None, "h, number of updates over which gradient noise averages out (default: measured)", HORIZON
    ] = None
    num_envs: Annotated[
        int | None, "number of environments of the probe, at least 32 (default: 256)", Range(1, MAX_ENVS)
    ] = None
    seed: Annotated[int | None, "seed of the probe (default: that of the run)", SEED] = None
    parts: Annotated[
        str,
        "what to measure besides variance, noise scale, bias and the error of every split: all, none, or a "
        f"comma-separated list of {', '.join(PARTS)}",
    ] = "all"

    def includes(self, part: str) -> bool:
        return self.parts == "all" or part in self.parts.split(",")


def check_request(options: Mapping[str, Any], rollout_size: int, seed: int) -> ProbeRequest:
    """Return the request of checked options, with the run's rollout size and seed as defaults."""
    request = new_record(ProbeRequest, None, options)
    size = rollout_size if request.rollout_size is None else request.rollout_size
    if size < 4 or is_prime(size):
        near = [n for n in (size - 1, size + 1) if n >= 4 and not is_prime(n)] or [4]
        raise RequestError(
            "rollout-split",
            f"A rollout of {size:,} steps can only be split as {size:,}×1 or 1×{size:,}: there is nothing to compare.",
            f"Use --rollout-size {' or '.join(map(str, near))}.",
            [{"rollout_size": n} for n in near],
        )
    if unknown := [part for part in request.parts.split(",") if part not in ("all", "none", *PARTS)]:
        raise RequestError(
            "choice", f"Unknown part {short_repr(unknown[0])}.", f"Use all, none, or some of {', '.join(PARTS)}."
        )
    return replace(request, rollout_size=size, seed=seed if request.seed is None else request.seed)
