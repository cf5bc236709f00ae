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


@rule("rrd-warm-up", "arithmetic: only finished episodes enter the reward batch")
def rrd_warm_up(plan: Plan, request: Request) -> Observation | None:
    """Gradient steps of RRD wait for the first episode that ends.

    With N environments an episode of T steps takes N·T environment steps. Where learning_starts is less, and no episode
    ends early, the iterations in between make no gradient step and the run makes fewer than were planned.
    """
    length, replay = request.episode_length, plan.replay
    if plan.algo != "rrd" or replay is None or length is None:
        return None
    first = (replay.learning_starts // plan.rollout_size + 1) * plan.num_steps
    if first >= length:
        return None
    needed = plan.num_envs * length
    return Observation(
        "info",
        f"Learning starts after {replay.learning_starts:,} steps, when an episode of {length:,} steps in one of "
        f"{plan.num_envs:,} environments need not have ended: gradient steps wait for the first that does.",
        f"Use learning_starts {needed:,} or more.",
        {"learning_starts": replay.learning_starts, "episode_length": length, "num_envs": plan.num_envs},
    )
