"""Rules about the budget: how many updates it allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollshape.geometry.rules.base import RuleResult, rule

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan
    from rollshape.geometry.request import Request

FEW_UPDATES = 100


@rule("few-updates", "Stable-Baselines3 issues 1625, 766 and 660 (more environments learn worse)")
def few_updates(plan: Plan, _: Request) -> RuleResult | None:
    """With a fixed budget, more environments mean fewer updates.

    2M steps are 488 updates with 256 environments × 16 steps, and only 61 with 2,048 × 16. A run that learns nothing
    with 2,048 environments has often simply ended too early. Fewer than 100 updates give a warning.
    """
    updates = plan.num_updates
    if updates is None or updates >= FEW_UPDATES or plan.replay is not None:
        return None
    budget = FEW_UPDATES * plan.rollout_size
    steps = plan.num_steps * plan.num_agents
    num_envs = (plan.total_timesteps or 0) // (FEW_UPDATES * steps * plan.world_size) * plan.world_size
    valid = num_envs >= 1 and (plan.minibatch_source == "auto" or num_envs * steps % plan.minibatch_size == 0)
    return RuleResult(
        "warn",
        f"The budget allows only {updates:,} update{'s' if updates > 1 else ''} "
        f"({plan.gradient_steps:,} gradient steps).",
        f"For {FEW_UPDATES} updates use total_timesteps {budget:,}"
        + (f", or num_envs {num_envs:,} with this budget." if valid else "."),
        {"num_updates": updates, "least": FEW_UPDATES, "gradient_steps": plan.gradient_steps},
    )


@rule("budget-rounding", "Stable-Baselines3 issues 366, 978 and 1150 (the budget is exceeded)")
def budget_rounding(plan: Plan, _: Request) -> RuleResult | None:
    """Only whole rollouts are collected: actual_timesteps = floor(total_timesteps / rollout_size) × rollout_size.

    Libraries differ: SB3 and Brax round up, CleanRL and Rollshape round down, skrl counts vector steps. Reported if
    the difference is 5 % of the budget or more.
    """
    if plan.total_timesteps is None or plan.actual_timesteps is None:
        return None
    gap = plan.total_timesteps - plan.actual_timesteps
    if abs(gap) < 0.05 * plan.total_timesteps:
        return None
    problem = "are not used" if gap > 0 else "are added"
    return RuleResult(
        "info",
        f"{abs(gap):,} timesteps {problem} (budget {plan.total_timesteps:,}): only whole rollouts are collected.",
        f"Use a multiple of {plan.rollout_size:,} as total_timesteps.",
        {"total_timesteps": plan.total_timesteps, "actual_timesteps": plan.actual_timesteps},
    )
