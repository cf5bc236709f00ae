"""All algorithms: name → class, and their settings as one dataclass.

A new algorithm is a file in this folder, a line in `ALGORITHMS`, a base of `AlgorithmSettings` if it has settings, and
a line in `geometry.algorithms`, which says what it asks of a plan.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from rollshape.algorithms.a2c import A2C
from rollshape.algorithms.base import Algorithm
from rollshape.algorithms.ppo import PPO, PPOSettings
from rollshape.algorithms.ppo_ewma import PPOEWMA, PPOEWMASettings
from rollshape.algorithms.reinforce import Reinforce, ReinforceSettings
from rollshape.algorithms.rrd import RRD, RRDSettings
from rollshape.algorithms.sac import SAC
from rollshape.envs.spaces import Action, Observation
from rollshape.errors import RequestError
from rollshape.geometry.algorithms import Algo
from rollshape.geometry.plan import Plan

ALGORITHMS: dict[Algo, type[Algorithm]] = {
    "ppo": PPO,
    "ppo-ewma": PPOEWMA,
    "a2c": A2C,
    "reinforce": Reinforce,
    "sac": SAC,
    "rrd": RRD,
}


@dataclass(frozen=True, kw_only=True)
class AlgorithmSettings(RRDSettings, ReinforceSettings, PPOEWMASettings, PPOSettings):
    """The settings of all algorithms; those of another algorithm than the run's must keep their defaults."""


def new_algorithm(spec: Any, plan: Plan, observation: Observation, action: Action, network: Any = None) -> Algorithm:
    """Return the algorithm of a spec. `network` is a module or a factory (key, observation, action) → module."""
    return ALGORITHMS[spec.algo](spec, plan, observation, action, network)  # type: ignore[call-arg]


def check_settings(spec: Any) -> None:
    """Raise RequestError for a setting of another algorithm that was changed: it would have no effect."""
    used = {field.name for field in fields(ALGORITHMS[spec.algo].Settings)}
    for field in fields(AlgorithmSettings):
        if field.name not in used and getattr(spec, field.name) != field.default:
            owners = [name for name, algorithm in ALGORITHMS.items() if hasattr(algorithm.Settings, field.name)]
            raise RequestError(
                "contradiction",
                f"{field.name} is a setting of {', '.join(owners)}; {spec.algo} does not use it.",
                f"Leave {field.name} out, or use --algo {owners[0]}.",
            )
