"""Options of a probe: one dataclass is the request, its documentation and its command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from rollshape.errors import RequestError
from rollshape.geometry.divisors import is_prime
from rollshape.geometry.request import whole_number

MIN_BATCHES = 3  # fewer give no interval
PARTS = ("sizes", "batches", "critic", "noises", "phases", "pictures")  # optional parts of a probe


@dataclass(frozen=True, kw_only=True)
class ProbeRequest:
    """Measure the gradient statistics of a run and predict them for every other split of its rollout size."""

    rollout_size: Annotated[int | None, "N·T whose splits are compared (default: that of the run)"] = None
    num_batches: Annotated[int, "number of independent batches of the run's shape to collect"] = 32
    start: Annotated[
        Literal["stationary", "run"],
        "start from fresh environments after a burn-in, or from the environment states of the run",
    ] = "stationary"
    horizon: Annotated[
        float | None, "h, number of updates over which gradient noise averages out (default: measured)"
    ] = None
    num_envs: Annotated[int | None, "number of environments of the probe, at least 32 (default: 256)"] = None
    seed: Annotated[int | None, "seed of the probe (default: that of the run)"] = None
    parts: Annotated[
        str,
        "what to measure besides variance, noise scale, bias and the error of every split: all, none, or a "
        f"comma-separated list of {', '.join(PARTS)}",
    ] = "all"

    def includes(self, part: str) -> bool:
        return self.parts == "all" or part in self.parts.split(",")


def check_request(request: ProbeRequest, rollout_size: int, seed: int) -> ProbeRequest:
    """Return the request with the run's rollout size and seed as defaults, or raise a RequestError."""
    size = whole_number("rollout_size", request.rollout_size if request.rollout_size is not None else rollout_size)
    if size < 4 or is_prime(size):
        near = [n for n in (size - 1, size + 1) if n >= 4 and not is_prime(n)] or [4]
        raise RequestError(
            "rollout-split",
            f"A rollout of {size:,} steps can only be split as {size:,}×1 or 1×{size:,}: there is nothing to compare.",
            f"Use --rollout-size {' or '.join(map(str, near))}.",
            [{"rollout_size": n} for n in near],
        )
    if request.horizon is not None and not 1 <= request.horizon < float("inf"):
        raise RequestError(
            "number-range", f"horizon must be at least 1 update, got {request.horizon}.", "Use 1 or more."
        )
    if request.start not in ("stationary", "run"):
        raise RequestError("choice", f"Unknown start {request.start!r}.", "Use stationary or run.")
    if unknown := [part for part in request.parts.split(",") if part not in ("all", "none", *PARTS)]:
        raise RequestError("choice", f"Unknown part {unknown[0]!r}.", f"Use all, none, or some of {', '.join(PARTS)}.")
    return replace(
        request,
        rollout_size=size,
        num_batches=whole_number("num_batches", request.num_batches, least=MIN_BATCHES, most=4096),
        num_envs=None if request.num_envs is None else whole_number("num_envs", request.num_envs),
        seed=whole_number("seed", seed if request.seed is None else request.seed, least=0, most=2**32 - 1),
    )
