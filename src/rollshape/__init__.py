"""Rollshape: what shape should my rollout batch have?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rollshape.api.environments import check_env
    from rollshape.api.report import diagnose, report
    from rollshape.api.runs import Run, Runs, load_run, load_runs
    from rollshape.api.study import StudyResult, load_study, study
    from rollshape.api.tables import Columns
    from rollshape.api.train import train
    from rollshape.envs.functional import FunctionalEnv, StepResult
    from rollshape.envs.registry import register
    from rollshape.envs.spaces import Action, Continuous, Discrete, MultiDiscrete, Observation
    from rollshape.errors import RequestError, RunError
    from rollshape.geometry.dialects import fit_config, rescale, translate
    from rollshape.geometry.plan import Plan, plan
    from rollshape.probes.probe import probe
    from rollshape.probes.result import Probe
    from rollshape.probes.rewards import probe_rewards
    from rollshape.studies.racing.advise import Recommendation, advise
    from rollshape.training.evaluation import evaluate
    from rollshape.training.reproduce import reproduce

__version__ = "0.1.0"

_HOMES = {
    "Action": "rollshape.envs.spaces",
    "Columns": "rollshape.api.tables",
    "Continuous": "rollshape.envs.spaces",
    "Discrete": "rollshape.envs.spaces",
    "FunctionalEnv": "rollshape.envs.functional",
    "MultiDiscrete": "rollshape.envs.spaces",
    "Observation": "rollshape.envs.spaces",
    "Plan": "rollshape.geometry.plan",
    "Probe": "rollshape.probes.result",
    "RequestError": "rollshape.errors",
    "Run": "rollshape.api.runs",
    "RunError": "rollshape.errors",
    "Recommendation": "rollshape.studies.racing.advise",
    "Runs": "rollshape.api.runs",
    "StepResult": "rollshape.envs.functional",
    "StudyResult": "rollshape.api.study",
    "advise": "rollshape.studies.racing.advise",
    "check_env": "rollshape.api.environments",
    "diagnose": "rollshape.api.report",
    "evaluate": "rollshape.training.evaluation",
    "fit_config": "rollshape.geometry.dialects",
    "load_run": "rollshape.api.runs",
    "load_runs": "rollshape.api.runs",
    "load_study": "rollshape.api.study",
    "plan": "rollshape.geometry.plan",
    "probe": "rollshape.probes.probe",
    "probe_rewards": "rollshape.probes.rewards",
    "register": "rollshape.envs.registry",
    "report": "rollshape.api.report",
    "reproduce": "rollshape.training.reproduce",
    "rescale": "rollshape.geometry.dialects",
    "study": "rollshape.api.study",
    "train": "rollshape.api.train",
    "translate": "rollshape.geometry.dialects",
}

__all__ = [
    "Action", "Columns", "Continuous", "Discrete", "FunctionalEnv", "MultiDiscrete", "Observation", "Plan", "Probe",
    "Recommendation", "RequestError", "Run", "RunError", "Runs", "StepResult", "StudyResult", "__version__", "advise",
    "check_env", "diagnose", "evaluate", "fit_config", "load_run", "load_runs", "load_study", "plan", "probe",
    "probe_rewards", "register", "report", "reproduce", "rescale", "study", "train", "translate",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that importing rollshape costs nothing."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rollshape' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
