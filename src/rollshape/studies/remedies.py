"""What to change in a run, in the words of the library that trained it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.remedy import change_settings
from rollshape.geometry.dialects.rescale import Change
from rollshape.studies.records import RunRecord

HYPERPARAMETERS = (
    "learning_rate", "gamma", "gae_lambda", "clip_range", "entropy_coef", "value_coef", "max_grad_norm", "target_kl",
)  # fmt: skip


@dataclass(frozen=True)
class Remedy:
    """What to try: new values of settings by their names in our vocabulary, and advice that is no setting."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    advice: str = ""


def render_remedy(run: RunRecord, remedy: Remedy) -> tuple[str, list[dict[str, Any]]]:
    """Return (text, changes) in the keys of the run's library, or in our flags if Rollshape trained it."""
    changes = _library_changes(run, remedy.changes)
    parts = [format_change(change) for change in changes]
    text = "; ".join(parts)
    if remedy.advice:
        text = f"{text}. {remedy.advice}" if text else remedy.advice
    return text, [{"key": change.key, "before": change.before, "after": change.after} for change in changes]


def format_change(change: Change) -> str:
    """Return a change as people write it: `n_steps: 2048 → 256`; words for what is no key of the library."""
    if change.reason:
        return change.reason
    before = "" if change.before is None else f"{_format_value(change.before)} → "
    separator = " " if change.key.startswith("--") else ": "
    return f"{change.key}{separator}{before}{_format_value(change.after)}"


def _format_value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _library_changes(run: RunRecord, wanted: Mapping[str, Any]) -> list[Change]:
    is_ours = run.trainer.is_ours
    try:
        if is_ours:
            changes = change_settings("rollshape", _our_config(run), None, wanted)
        else:
            changes = change_settings(run.trainer.dialect, run.config, run.plan.num_envs, wanted)
    except RequestError:  # a config that cannot be read, or no on-policy batch: our own names are better than none
        changes = [Change(name, _current(run, name), value, "") for name, value in wanted.items()]
    return [_as_flag(change) for change in changes] if is_ours else changes


def _current(run: RunRecord, name: str) -> Any:
    value = getattr(run.plan, name, None)
    return value if value is not None else getattr(run.spec, name, None) if run.knows(name) else None


def _our_config(run: RunRecord) -> dict[str, Any]:
    sizes = ("algo", "num_envs", "num_steps", "minibatch_size", "num_epochs", "total_timesteps")
    config = {name: getattr(run.plan, name) for name in sizes}
    return config | {name: value for name in HYPERPARAMETERS if (value := getattr(run.spec, name)) is not None}


def _as_flag(change: Change) -> Change:
    return Change(f"--{change.key.replace('_', '-')}", change.before, change.after, change.reason)
