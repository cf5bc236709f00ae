"""Regret of rescaling policies: how much lower a policy scores than the best one, over several tasks.

The scores of a task are scaled so that 0 is the first score of its recipe and 1 the recipe's center, and averaged over
the tasks. Intervals are bootstrapped over seeds, within each task and policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rollshape.geometry.dialects.policies import POLICIES, PolicyName
from rollshape.geometry.dialects.rescale import rescale
from rollshape.studies.rescaling import MEASURED
from rollshape.studies.statistics import Floats, Summary, center, sample_centers, separation_level

if TYPE_CHECKING:
    from rollshape.studies.groups import Group, Task

ENVS_ONLY_FORMS = ("keep-minibatch", "keep-num-minibatches")  # what changing num_envs only is, by the library's keys


@dataclass(frozen=True)
class RescaledTask:
    """The groups of a task by the factor of num_envs and the policy, and the group of the recipe itself."""

    task: Task
    recipe: Group
    groups: dict[float, dict[str, Group]]

    @property
    def has_finished(self) -> bool:
        """Whether the recipe itself has a score, to which the others are scaled."""
        return any(run.status == "done" for run in self.recipe.runs)


def match_policies(task: Task) -> RescaledTask | None:
    """Find the recipe of a task, the only group with its number of environments, and the policies of the others."""
    by_count: dict[int, list[Group]] = {}
    for group in task.groups:
        by_count.setdefault(group.plan.num_envs, []).append(group)
    single = [groups[0] for groups in by_count.values() if len(groups) == 1]
    if len(single) != 1 or len(by_count) < 2:
        return None
    recipe = single[0]
    matched: dict[float, dict[str, Group]] = {}
    for count, groups in sorted(by_count.items()):
        if count != recipe.plan.num_envs:
            matches = {name: _find(groups, recipe, count, name) for name in MEASURED}
            matched[count / recipe.plan.num_envs] = {
                name: group for name, group in matches.items() if group is not None
            }
    return RescaledTask(task, recipe, matched)


def _find(groups: Sequence[Group], recipe: Group, num_envs: int, policy: PolicyName) -> Group | None:
    names = ("num_envs", "num_steps", "num_minibatches", "num_epochs", "total_timesteps")
    config: dict[str, Any] = {name: getattr(recipe.plan, name) for name in names}
    result = rescale(config | {"learning_rate": recipe.spec.learning_rate}, "rollshape", num_envs, policy=policy)
    for group in groups:
        same_sizes = all(getattr(group.plan, name) == getattr(result.plan, name) for name in names)
        if same_sizes and group.spec.learning_rate == result.config["learning_rate"]:
            return group
    return None


def scaled_scores(task: RescaledTask, *, by_area: bool) -> dict[float, dict[str, Floats]]:
    """Return factor → policy → scaled scores of the runs; by area, only policies with the recipe's budget."""
    source, recipe = task.task, task.recipe
    budget = recipe.plan.total_timesteps
    if by_area:
        source = replace(source, groups=tuple(group for group in source.groups if group.plan.total_timesteps == budget))
    scores = source.areas() if by_area else source.final_returns()
    start = float(np.median([curve.y[0] for curve in source.curves(recipe, "timesteps")]))
    unit = float(center(scores[recipe.label])) - start
    return {
        factor: {name: (scores[group.label] - start) / unit for name, group in groups.items() if group.label in scores}
        for factor, groups in task.groups.items()
    }


@dataclass(frozen=True)
class PolicyScore:
    """A policy at one factor, over all tasks: its score, its regret, and its distance to changing num_envs only."""

    policy: str
    score: Summary
    regret: Summary
    versus: dict[str, Summary]  # by the form of changing num_envs only: the score minus that of the form


@dataclass(frozen=True)
class PolicyComparison:
    """All policies at one factor; `tied` are the best and those that no other is significantly better than."""

    factor: float
    best: str
    tied: tuple[str, ...]
    scores: dict[str, PolicyScore]


def compare_policies(factor: float, tasks: Sequence[Mapping[str, Floats]]) -> PolicyComparison:
    """Compare policies by their scaled scores on several tasks; policies that a task lacks are left out.

    The best is chosen among policies with the recipe's budget; the regret of one with another budget may be negative.
    """
    names = [name for name in tasks[0] if all(name in task for task in tasks)]
    strata = [np.asarray(task[name], np.float64) for task in tasks for name in names]
    shape = (len(tasks), len(names))
    centers = np.array([float(center(runs)) for runs in strata]).reshape(shape).mean(axis=0)
    samples = sample_centers(strata).reshape(*shape, -1).mean(axis=0)
    runs = min(map(len, strata))
    same_budget = [i for i, name in enumerate(names) if not POLICIES[name].keeps_updates]
    best = max(same_budget, key=lambda i: centers[i])
    highest = samples[same_budget].max(axis=0)
    level = separation_level(len(same_budget) * (len(same_budget) - 1) // 2)
    beaten = {i for i in same_budget for j in same_budget if (samples[j] > samples[i]).mean() > level}
    tied = tuple(names[i] for i in same_budget if i == best or i not in beaten)

    def summary(value: float, sampled: Floats, method: Any) -> Summary:
        low, high = np.quantile(sampled, (0.025, 0.975))
        return Summary(float(value), float(low), float(high), runs, method)

    scores = {}
    for i, name in enumerate(names):
        versus = {
            form: summary(centers[i] - centers[j], samples[i] - samples[j], "difference")
            for j, form in enumerate(names)
            if form in ENVS_ONLY_FORMS
        }
        scores[name] = PolicyScore(
            name,
            summary(centers[i], samples[i], "iqm"),
            summary(centers[best] - centers[i], highest - samples[i], "regret"),
            versus,
        )
    return PolicyComparison(factor, names[best], tied, scores)
