"""Rules about the machine: cores and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollshape.formatting import format_bytes
from rollshape.geometry.machine import machine
from rollshape.geometry.rules.base import Observation, rule

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan
    from rollshape.geometry.request import Request

CROWDED = 4  # environments a core, as processes
HIGH_SHARE = 0.7


@rule("envs-cores", "openai/baselines issue 1050 (96 CPUs, no gain); Stable-Baselines3 issue 643")
def envs_cores(plan: Plan, request: Request) -> Observation | None:
    """Environments that run on the CPU share its cores.

    As many as cores keeps them busy; a few a core hide waiting; beyond that a step of the pool only gets
    slower, in proportion. More environments than that still make the batch more diverse, but not faster.
    Fewer than cores leaves some idle. Does not apply to simulators on an accelerator.
    """
    if not request.host_envs:
        return None
    cores = machine().cores
    numbers = {"num_envs": plan.num_envs, "cores": cores}
    if plan.num_envs > CROWDED * cores:
        return Observation(
            "info",
            f"{plan.num_envs:,} environments share {cores} cores: beyond about {CROWDED * cores} they add diversity, "
            "not speed.",
            "Measure steps/s; a pool in C++ threads (EnvPool) carries more than processes do.",
            numbers,
        )
    if plan.num_envs < cores:
        return Observation(
            "info",
            f"{plan.num_envs} environments leave {cores - plan.num_envs} of {cores} cores idle while collecting.",
            f"Use num_envs {cores} or more.",
            numbers,
        )
    return None


@rule("memory-share", "arithmetic; Stable-Baselines3 issues 834, 1630 and 1885")
def memory_share(plan: Plan, _: Request) -> Observation | None:
    """A run that takes most of the machine's memory leaves none for the rest.

    From 70 % of the memory on it is a warning; more than all of it is an error.
    """
    memory = plan.memory
    if memory is None or memory.peak_bytes < HIGH_SHARE * memory.machine_bytes:
        return None
    return Observation(
        "warn",
        f"The run will hold {format_bytes(memory.peak_bytes)}, {memory.peak_bytes / memory.machine_bytes:.0%} of this "
        "machine's memory.",
        "Collect a smaller rollout, or keep images as uint8.",
        {"peak_bytes": memory.peak_bytes, "machine_bytes": memory.machine_bytes},
    )
