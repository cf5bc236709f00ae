"""Rules about the machine: cores and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollshape.formatting import format_bytes
from rollshape.geometry.machine import available_memory, machine
from rollshape.geometry.rules.base import RuleResult, rule

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan
    from rollshape.geometry.request import Request

MOST_ENVS_PER_CORE = 4
HIGH_SHARE = 0.7


@rule("envs-cores", "openai/baselines issue 1050 (96 CPUs, no gain); Stable-Baselines3 issue 643")
def envs_cores(plan: Plan, request: Request) -> RuleResult | None:
    """Environments that run on the CPU share its cores.

    One environment per core keeps all cores busy, and a few per core hide waiting times. Beyond that, each vector step
    takes proportionally longer: more environments make the batch more diverse, but do not increase steps/s. Fewer
    environments than cores leave some cores idle. The rule does not apply to simulators on an accelerator.
    """
    if not request.host_envs:
        return None
    cores = machine().cores
    numbers = {"num_envs": plan.num_envs, "cores": cores}
    if plan.num_envs > MOST_ENVS_PER_CORE * cores:
        return RuleResult(
            "info",
            f"{plan.num_envs:,} environments share {cores} cores: above about {MOST_ENVS_PER_CORE * cores} "
            "environments, steps/s no longer increase.",
            "Measure steps/s. EnvPool (C++ threads) scales to more environments than processes do.",
            numbers,
        )
    if plan.num_envs < cores:
        return RuleResult(
            "info",
            f"{plan.num_envs} environments leave {cores - plan.num_envs} of {cores} cores idle during collection.",
            f"Use num_envs {cores} or more.",
            numbers,
        )
    return None


@rule("memory-share", "arithmetic; Stable-Baselines3 issues 834, 1630 and 1885")
def memory_share(plan: Plan, _: Request) -> RuleResult | None:
    """A run should not need most of the memory that is available.

    From 70 % of the memory that no other process uses there is a warning. More than the machine has in total is an
    error.
    """
    memory, available = plan.memory, available_memory()
    if memory is None or available is None or memory.peak_bytes < HIGH_SHARE * available:
        return None
    share = f"{memory.peak_bytes / available:.0%} of" if available else "of"
    return RuleResult(
        "warn",
        f"The run needs {format_bytes(memory.peak_bytes)}, {share} the {format_bytes(available)} of memory that are "
        "available now.",
        "Stop other processes, use a smaller rollout, or store images as uint8.",
        {"peak_bytes": memory.peak_bytes, "available_bytes": available},
    )
