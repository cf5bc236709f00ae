"""Expand a study into trials: every point × seed is a Spec with a stable id; illegal points keep their reason."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.plan import Plan
from rollshape.studies.study import MAX_TRIALS, Study
from rollshape.training.spec import Spec, checked_spec

NUM_EVALUATIONS = 20
WORKER_DEFAULTS = {"num_shards": 1}  # a worker is pinned to one core
METAWORLD, MAX_METAWORLD_ENVS = "envpool:MetaWorld/", 512  # at 15 MB each, 7.7 GB per trial
_LR_POWER = {"fixed": 0.0, "sqrt": 0.5, "linear": 1.0}
_DEFAULTS = {field.name: field.default for field in fields(Spec)}


@dataclass(frozen=True)
class Trial:
    """One run of a study. Trials of one `group` differ in the seed only and share a compiled program."""

    id: str
    group: str
    point: dict[str, Any]
    seed: int
    spec: Spec
    plan: Plan
    probe_at: tuple[float, ...] = ()  # shares of the run
    probe_envs: int = 0
    until: int | None = None  # timesteps after which it pauses; None: it is trained to the end

    @property
    def shape(self) -> str:
        return f"{self.plan.num_envs}×{self.plan.num_steps}"


@dataclass(frozen=True)
class IllegalPoint:
    """A point that cannot be run: the rule it breaks, the message with its numbers, and a fix."""

    point: dict[str, Any]
    rule: str
    message: str
    fix: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Expansion:
    """All trials of a study, its illegal points, and the timesteps between two evaluations.

    `aligned` is false where rollout sizes have no usable common multiple: each trial is then scored at its nearest
    update.
    """

    trials: tuple[Trial, ...]
    illegal: tuple[IllegalPoint, ...]
    evaluate_every: int
    aligned: bool


def expand(study: Study) -> Expansion:
    """Return points × seeds; a study without a legal point is a RequestError."""
    legal, illegal = [], []
    for point in study.points:
        try:
            legal.append((point, *_plan_point(study, point)))
        except RequestError as error:
            illegal.append(IllegalPoint(point, error.rule, error.message, error.fix))
    if not legal:
        first = illegal[0]
        raise RequestError(
            "study", f"{study.name} has no legal point. {format_point(first.point)}: {first.message}", first.fix
        )
    if len(legal) * len(study.seeds) > MAX_TRIALS:
        raise RequestError("study", f"{study.name} has more than {MAX_TRIALS:,} trials.", "Use fewer points or seeds.")
    every, aligned = evaluation_grid([plan for _, _, plan in legal], study.evaluate_every)
    trials = [
        _make_trial(point, replace(spec, seed=seed, **eval_fields(plan, every)), plan, study)
        for point, spec, plan in legal
        for seed in study.seeds
    ]
    _check_distinct(study, trials)
    return Expansion(tuple(trials), tuple(illegal), every, aligned)


def format_point(point: dict[str, Any]) -> str:
    """Return `num_envs 64, num_steps 32`."""
    return ", ".join(f"{name} {format_value(value)}" for name, value in point.items())


def format_value(value: Any) -> str:
    """Return a field's value as text: `a=1 b=2` for a mapping, `[64, 64]` for a tuple."""
    if isinstance(value, tuple):
        return str(list(value))
    if isinstance(value, dict):
        return " ".join(f"{name}={format_value(inner)}" for name, inner in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _plan_point(study: Study, point: dict[str, Any]) -> tuple[Spec, Plan]:
    spec = checked_spec(Spec(**(WORKER_DEFAULTS | study.fixed | point)))
    plan = spec.plan()
    if spec.env.startswith(METAWORLD) and plan.num_envs > MAX_METAWORLD_ENVS:
        raise RequestError(
            "study",
            f"{plan.num_envs:,} environments of {spec.env} take {plan.num_envs * 15 / 1000:.1f} GB, 15 MB each.",
            f"Use at most {MAX_METAWORLD_ENVS} MetaWorld environments.",
        )
    if study.lr_rule != "fixed":
        growth = plan.minibatch_size / (study.lr_reference or plan.minibatch_size)
        spec = replace(spec, learning_rate=spec.learning_rate * growth ** _LR_POWER[study.lr_rule])
    return spec, plan


def evaluation_grid(plans: list[Plan], requested: int | None = None) -> tuple[int, bool]:
    """Return (timesteps between evaluations, whether every shape has an update exactly there).

    By default these are the multiple of all rollout sizes that is nearest to a twentieth of the longest budget.
    """
    longest = max(plan.actual_timesteps or 0 for plan in plans)
    common = math.lcm(*(plan.rollout_size for plan in plans))
    if requested is not None:
        return requested, requested % common == 0
    target = longest / NUM_EVALUATIONS
    if common <= longest // 4:
        return common * max(1, round(target / common)), True
    return max(1, round(target)), False


def eval_fields(plan: Plan, every: int) -> dict[str, Any]:
    """Return the Spec fields that log a run and score it on fresh episodes at these timesteps."""
    return {"eval_every": every, "log_every": max(1, round(every / plan.rollout_size))}


def _make_trial(point: dict[str, Any], spec: Spec, plan: Plan, study: Study) -> Trial:
    """Make a trial; only the first seed of a point is probed: others would cost more than they add."""
    group = _spec_hash(replace(spec, seed=0))
    label = f"{plan.num_envs}x{plan.num_steps}-{group}-seed{spec.seed}"
    at = study.probe_at if spec.seed == study.seeds[0] else ()
    return Trial(label, group, point, spec.seed, spec, plan, at, study.probe_envs)


def _spec_hash(spec: Spec) -> str:
    """Return a short hash of the fields that are not at their default, so that a new field changes no id."""
    changed = {name: value for name, value in spec.to_dict().items() if value != _DEFAULTS[name]}
    return hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()[:8]


def _check_distinct(study: Study, trials: list[Trial]) -> None:
    by_id: dict[str, Trial] = {}
    for trial in trials:
        if trial.id in by_id:
            points = f"{format_point(by_id[trial.id].point)} and {format_point(trial.point)}"
            raise RequestError("study", f"{study.name}: two points are the same run: {points}.", "Remove one of them.")
        by_id[trial.id] = trial
