"""Rules about the budget: how many updates it buys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollshape.geometry.rules.base import Observation, rule

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan
    from rollshape.geometry.request import Request

FEW_UPDATES = 100


@rule("few-updates", "Stable-Baselines3 issues 1625, 766 and 660 (“more environments learn worse”)")
def few_updates(plan: Plan, _: Request) -> Observation | None:
    """At a fixed budget, more environments mean fewer updates.

    2M steps are 488 updates with 256 environments × 16 steps and 61 with 2,048 × 16. A run that “failed
    with 2,048 environments” has often simply stopped early. Fewer than 100 updates is a warning.
    """
    updates = plan.num_updates
    if updates is None or updates >= FEW_UPDATES or plan.replay is not None:
        return None
    budget = FEW_UPDATES * plan.rollout_size
    smaller = (plan.total_timesteps or 0) // (FEW_UPDATES * plan.num_steps)
    legal = smaller >= 1 and (plan.minibatch_source == "auto" or smaller * plan.num_steps % plan.minibatch_size == 0)
    return Observation(
        "warn",
        f"The budget buys {updates:,} update{'s' if updates > 1 else ''} ({plan.gradient_steps:,} gradient steps).",
        f"total_timesteps {budget:,} would buy {FEW_UPDATES}"
        + (f"; so would num_envs {smaller:,} at this budget." if legal else "."),
        {"num_updates": updates, "least": FEW_UPDATES, "gradient_steps": plan.gradient_steps},
    )


@rule("budget-rounding", "Stable-Baselines3 issues 366, 978 and 1150 (the budget is overshot)")
def budget_rounding(plan: Plan, _: Request) -> Observation | None:
    """Only whole rollouts are collected: actual_timesteps = floor(total / rollout_size) × rollout_size.

    Libraries differ: SB3 and Brax round up, CleanRL and Rollshape round down, skrl counts vector steps.
    Worth a note from 5 % on.
    """
    if plan.total_timesteps is None or plan.actual_timesteps is None:
        return None
    gap = plan.total_timesteps - plan.actual_timesteps
    if abs(gap) < 0.05 * plan.total_timesteps:
        return None
    return Observation(
        "info",
        f"{abs(gap):,} of {plan.total_timesteps:,} timesteps {'are not used' if gap > 0 else 'come on top'}: "
        "only whole rollouts are collected.",
        f"A multiple of {plan.rollout_size:,} is used whole.",
        {"total_timesteps": plan.total_timesteps, "actual_timesteps": plan.actual_timesteps},
    )
