"""Rollshape: what shape should my rollout batch have?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rollshape.errors import RequestError, RunError
    from rollshape.geometry.dialects import fit_config, rescale, translate
    from rollshape.geometry.plan import Plan, plan
    from rollshape.probes.probe import probe
    from rollshape.probes.result import Probe
    from rollshape.probes.rewards import probe_rewards
    from rollshape.training.run import Run, train

__version__ = "0.1.0"

_HOMES = {
    "Plan": "rollshape.geometry.plan",
    "Probe": "rollshape.probes.result",
    "RequestError": "rollshape.errors",
    "RunError": "rollshape.errors",
    "fit_config": "rollshape.geometry.dialects",
    "plan": "rollshape.geometry.plan",
    "probe": "rollshape.probes.probe",
    "probe_rewards": "rollshape.probes.rewards",
    "rescale": "rollshape.geometry.dialects",
    "Run": "rollshape.training.run",
    "train": "rollshape.training.run",
    "translate": "rollshape.geometry.dialects",
}

__all__ = [
    "Plan", "Probe", "RequestError", "Run", "RunError", "__version__", "fit_config", "plan", "probe",
    "probe_rewards", "rescale", "train", "translate",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that importing rollshape costs nothing."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rollshape' has no attribute {name!r}")
