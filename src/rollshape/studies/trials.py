"""A study's trials: every point × seed as a Spec, with an id that no reordering changes; what is illegal says why."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.plan import Plan
from rollshape.studies.study import MOST_TRIALS, Study
from rollshape.training.spec import Spec, checked_spec

EVALUATIONS = 20
ONE_CORE = {"num_shards": 1}  # a trial has one: its worker is pinned
METAWORLD, METAWORLD_ENVS = "envpool:MetaWorld/", 512  # at 15 MB each, 7.7 GB a trial
_POWER = {"fixed": 0.0, "sqrt": 0.5, "linear": 1.0}
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

    @property
    def shape(self) -> str:
        return f"{self.plan.num_envs}×{self.plan.num_steps}"


@dataclass(frozen=True)
class Illegal:
    """A point that cannot be run: the rule that it breaks, the numbers, and what would be right."""

    point: dict[str, Any]
    rule: str
    message: str
    fix: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Expansion:
    """All of a study: what runs, what cannot, and the timesteps between two scores.

    `aligned` is false where the rollouts have no common multiple to score at: scores then fall on each trial's nearest
    update.
    """

    trials: tuple[Trial, ...]
    illegal: tuple[Illegal, ...]
    evaluate_every: int
    aligned: bool


def expand(study: Study) -> Expansion:
    """Points × seeds; a study without a legal point is a RequestError."""
    legal, illegal = [], []
    for point in study.points:
        try:
            legal.append((point, *_planned(study, point)))
        except RequestError as error:
            illegal.append(Illegal(point, error.rule, error.message, error.fix))
    if not legal:
        first = illegal[0]
        raise RequestError(
            "study", f"{study.name} has no legal point. {labelled(first.point)}: {first.message}", first.fix
        )
    if len(legal) * len(study.seeds) > MOST_TRIALS:
        raise RequestError("study", f"{study.name} has more than {MOST_TRIALS:,} trials.", "Use fewer points or seeds.")
    every, aligned = evaluation_grid([plan for _, _, plan in legal], study.evaluate_every)
    trials = [
        _trial(point, replace(spec, seed=seed, **scoring(plan, every)), plan, study)
        for point, spec, plan in legal
        for seed in study.seeds
    ]
    _all_different(study, trials)
    return Expansion(tuple(trials), tuple(illegal), every, aligned)


def labelled(point: dict[str, Any]) -> str:
    """`num_envs 64, num_steps 32`."""
    return ", ".join(f"{name} {_word(value)}" for name, value in point.items())


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={_word(inner)}" for name, inner in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _planned(study: Study, point: dict[str, Any]) -> tuple[Spec, Plan]:
    spec = checked_spec(Spec(**(ONE_CORE | study.fixed | point)))
    plan = spec.plan()
    if spec.env.startswith(METAWORLD) and plan.num_envs > METAWORLD_ENVS:
        raise RequestError(
            "study",
            f"{plan.num_envs:,} environments of {spec.env} take {plan.num_envs * 15 / 1000:.1f} GB, 15 MB each.",
            f"A study takes at most {METAWORLD_ENVS} of MetaWorld's.",
        )
    if study.lr_rule != "fixed":
        growth = plan.minibatch_size / (study.lr_reference or plan.minibatch_size)
        spec = replace(spec, learning_rate=spec.learning_rate * growth ** _POWER[study.lr_rule])
    return spec, plan


def evaluation_grid(plans: list[Plan], asked: int | None = None) -> tuple[int, bool]:
    """(timesteps between scores, whether every shape has an update exactly there).

    Without a wish it is the multiple of all rollout sizes that is nearest to a twentieth of the longest budget.
    """
    longest = max(plan.actual_timesteps or 0 for plan in plans)
    common = math.lcm(*(plan.rollout_size for plan in plans))
    if asked is not None:
        return asked, asked % common == 0
    wanted = longest / EVALUATIONS
    if common <= longest // 4:
        return common * max(1, round(wanted / common)), True
    return max(1, round(wanted)), False


def scoring(plan: Plan, every: int) -> dict[str, Any]:
    """Fields of a Spec by which a run is logged, and scored on fresh episodes, every so many timesteps."""
    return {"eval_every": every, "log_every": max(1, round(every / plan.rollout_size))}


def _trial(point: dict[str, Any], spec: Spec, plan: Plan, study: Study) -> Trial:
    """The first seed of every point is probed: a probe tells of a shape, and other seeds would cost more than they
    add."""
    group = _digest(replace(spec, seed=0))
    label = f"{plan.num_envs}x{plan.num_steps}-{group}-seed{spec.seed}"
    at = study.probe_at if spec.seed == study.seeds[0] else ()
    return Trial(label, group, point, spec.seed, spec, plan, at, study.probe_envs)


def _digest(spec: Spec) -> str:
    """A name for the spec: only what is not default counts, so a field that is added later changes no id."""
    chosen = {name: value for name, value in spec.to_dict().items() if value != _DEFAULTS[name]}
    return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:8]


def _all_different(study: Study, trials: list[Trial]) -> None:
    seen: dict[str, Trial] = {}
    for trial in trials:
        if trial.id in seen:
            both = f"{labelled(seen[trial.id].point)} and {labelled(trial.point)}"
            raise RequestError("study", f"{study.name}: two points are the same run: {both}.", "Remove one of them.")
        seen[trial.id] = trial
