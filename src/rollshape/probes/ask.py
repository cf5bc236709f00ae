"""What may be asked of a probe: one dataclass is the request, its documentation and its command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from rollshape.errors import RequestError
from rollshape.geometry.divisors import is_prime
from rollshape.geometry.request import whole_number

MIN_BATCHES = 3  # fewer have no interval
PARTS = ("sizes", "batches", "critic", "noises", "phases", "pictures")  # beside what is always measured


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What a batch of a run's shape is worth, and what every other split of its size would give."""

    rollout_size: Annotated[int | None, "N·T whose splits are compared (default: the run's)"] = None
    num_batches: Annotated[int, "independent batches of the run's shape that are collected"] = 32
    start: Annotated[
        Literal["stationary", "run"], "environments of the probe's own, burned in, or the run's own states"
    ] = "stationary"
    horizon: Annotated[float | None, "h, updates over which noise averages out (default: measured)"] = None
    num_envs: Annotated[int | None, "environments of the probe, at least 32 (default: 256)"] = None
    seed: Annotated[int | None, "seed of the probe (default: the run's)"] = None
    parts: Annotated[
        str, f"what else is measured beside variance, noise scale, bias and surface: all, none or of {','.join(PARTS)}"
    ] = "all"

    def has(self, part: str) -> bool:
        return self.parts == "all" or part in self.parts.split(",")


def checked(ask: Ask, rollout_size: int, seed: int) -> Ask:
    """The request with the run's own size and seed filled in, or a RequestError."""
    size = whole_number("rollout_size", ask.rollout_size if ask.rollout_size is not None else rollout_size)
    if size < 4 or is_prime(size):
        near = [n for n in (size - 1, size + 1) if n >= 4 and not is_prime(n)] or [4]
        raise RequestError(
            "rollout-split",
            f"A rollout of {size:,} has no split but {size:,}×1 and 1×{size:,}: there is nothing to compare.",
            f"Use --rollout-size {' or '.join(map(str, near))}.",
            [{"rollout_size": n} for n in near],
        )
    if ask.horizon is not None and not 1 <= ask.horizon < float("inf"):
        raise RequestError("number-range", f"horizon must be at least 1 update, got {ask.horizon}.", "Use 1 or more.")
    if ask.start not in ("stationary", "run"):
        raise RequestError("choice", f"There is no start {ask.start!r}.", "Use stationary or run.")
    if unknown := [part for part in ask.parts.split(",") if part not in ("all", "none", *PARTS)]:
        raise RequestError(
            "choice", f"A probe has no part {unknown[0]!r}.", f"Use all, none, or some of {', '.join(PARTS)}."
        )
    return replace(
        ask,
        rollout_size=size,
        num_batches=whole_number("num_batches", ask.num_batches, least=MIN_BATCHES, most=4096),
        num_envs=None if ask.num_envs is None else whole_number("num_envs", ask.num_envs),
        seed=whole_number("seed", seed if ask.seed is None else ask.seed, least=0, most=2**32 - 1),
    )
