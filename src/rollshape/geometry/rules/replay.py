"""Rules about RRD's batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollshape.geometry.rules.base import Observation, rule

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan
    from rollshape.geometry.request import Request


@rule("rrd-sample-length", "Ren et al. 2022, and the finite-population correction of its unbiased loss")
def rrd_sample_length(plan: Plan, request: Request) -> Observation | None:
    """A subsequence longer than an episode repeats some of its timesteps.

    RRD draws rrd_sample_size timesteps of an episode without replacement. From a shorter episode they are drawn
    with replacement, which is legal and adds noise: K draws from T < K timesteps tell no more than all T would.
    """
    length = request.episode_length
    if plan.replay is None or length is None or plan.replay.rrd_sample_size <= length:
        return None
    sample = plan.replay.rrd_sample_size
    return Observation(
        "warn",
        f"rrd_sample_size {sample:,} is longer than an episode of {length:,} steps: timesteps are drawn repeatedly.",
        f"Use rrd_sample_size {length:,} or less.",
        {"rrd_sample_size": sample, "episode_length": length},
    )
