"""Why a key of a rescaled config changes."""

from __future__ import annotations

from rollshape.geometry.dialects.fit import BUDGET
from rollshape.geometry.dialects.keys import Key
from rollshape.geometry.dialects.policies import RescalePolicy
from rollshape.geometry.plan import Plan

ENVIRONMENTS = ("num_envs", "workers", "envs_per_worker")
_STEPS = ("num_steps", "rollout_size")
_MINIBATCH = ("minibatch_size", "num_minibatches", "trajectories", "minibatch_per_env")


def give_reason(entry: Key, before: Plan, after: Plan, policy: RescalePolicy, why: str) -> str:
    """Return why a key changes, or an empty string if only the library asks for it.

    `why` is the reason for a minibatch size other than the policy's, if there is one.
    """
    if entry.concept in ENVIRONMENTS:
        return "requested"
    if entry.concept in BUDGET:
        kept = "num_updates" if policy.keeps_updates else "total_timesteps"
        return f"keeps {kept} at {getattr(before, kept):,}"
    if entry.concept in _STEPS:
        return _steps_reason(before, after) if policy.keeps_rollout else ""
    if entry.concept in _MINIBATCH:
        return why or _minibatch_reason(before, after, policy)
    if policy.lr_power and (entry.concept == "learning_rate" or entry.leaf.endswith("lr")):
        root = "√" if policy.lr_power == 0.5 else ""
        return f"× {root}({after.minibatch_size:,} / {before.minibatch_size:,}), the change of minibatch_size"
    return ""


def _steps_reason(before: Plan, after: Plan) -> str:
    if after.rollout_size == before.rollout_size:
        return f"keeps rollout_size at {after.rollout_size:,}"
    return f"rollout_size {after.rollout_size:,}, near {before.rollout_size:,}"


def _minibatch_reason(before: Plan, after: Plan, policy: RescalePolicy) -> str:
    if policy.keeps_count:
        return f"keeps {after.num_minibatches:,} minibatches of a rollout of {after.rollout_size:,}"
    if after.minibatch_size == before.minibatch_size:
        return f"keeps minibatch_size at {after.minibatch_size:,}"
    return f"the whole rollout of {after.rollout_size:,}"
