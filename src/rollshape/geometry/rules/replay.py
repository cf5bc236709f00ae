"""Rules about the batches of RRD."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollshape.geometry.algorithms import RULES
from rollshape.geometry.rules.base import RuleResult, rule

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan
    from rollshape.geometry.request import Request


@rule("rrd-sample-length", "Ren et al. 2022, and the finite-population correction of its unbiased loss")
def rrd_sample_length(plan: Plan, request: Request) -> RuleResult | None:
    """A subsequence that is longer than the episode contains some timesteps more than once.

    RRD samples rrd_sample_size timesteps of an episode without replacement. If the episode is shorter, it samples with
    replacement. This is valid but adds noise: K samples of T < K timesteps contain no more information than all T.
    """
    length = request.episode_length
    if plan.replay is None or length is None or plan.replay.rrd_sample_size <= length:
        return None
    sample = plan.replay.rrd_sample_size
    return RuleResult(
        "warn",
        f"rrd_sample_size {sample:,} exceeds the episode length of {length:,} steps: timesteps are sampled repeatedly.",
        f"Use rrd_sample_size {length:,} or less.",
        {"rrd_sample_size": sample, "episode_length": length},
    )


@rule("rrd-warm-up", "arithmetic: only finished episodes enter the reward batch")
def rrd_warm_up(plan: Plan, request: Request) -> RuleResult | None:
    """RRD takes no gradient steps before the first episode has ended.

    With N environments, episodes of T steps end after N·T environment steps. If learning_starts is smaller and no
    episode ends early, the iterations in between take no gradient steps and the run takes fewer than planned.
    """
    length, replay = request.episode_length, plan.replay
    if not RULES[plan.algo].uses_subsequences or replay is None or length is None:
        return None
    first = (replay.learning_starts // plan.rollout_size + 1) * plan.num_steps
    if first >= length:
        return None
    least = plan.num_envs * length
    return RuleResult(
        "info",
        f"learning_starts {replay.learning_starts:,} may be reached before the first episode has ended "
        f"({plan.num_envs:,} environments, {length:,} steps per episode): gradient steps start later than that.",
        f"Use learning_starts {least:,} or more.",
        {"learning_starts": replay.learning_starts, "episode_length": length, "num_envs": plan.num_envs},
    )
