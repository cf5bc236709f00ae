"""What to use according to a study whose runs have finished: the best group, those tied with it, and those to avoid."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from rollshape.geometry.plan import Plan
from rollshape.studies.groups import Group, Task
from rollshape.studies.rules.comparison import best_and_ties
from rollshape.training.spec import Spec

MIN_RUNS = 2  # per group: one run says nothing about the next
MOST_LABELS = 6  # in a sentence


@dataclass(frozen=True)
class TaskChoice:
    """The groups of a task by their final returns: `tied` are not significantly worse than the best, `worse` are."""

    task: Task
    best: Group
    tied: tuple[Group, ...]
    worse: tuple[Group, ...]

    def sentence(self) -> str:
        """Return what to use and what to avoid: `Use 64×32; statistically tied: 32×64. Avoid 1024×2: …`"""
        avoid = f" Avoid {_list(self.worse)}: significantly lower final return." if self.worse else ""
        labels = {self.best.label, *(group.label for group in self.tied)}
        good = [group for group in self.task.groups if group.label in labels]
        if self.tied and not self.worse:
            return f"No significant difference: {_list(good)} are statistically tied. Highest: {self.best.label}."
        if len(good) > 2 and (ends := self._range(good)) is not None:
            first, last = ends
            return (
                f"Use {first:,} to {last:,} environments: {_list(good)} are statistically tied, {self.best.label} is "
                f"the highest.{avoid}"
            )
        tied = f"; statistically tied: {_list(self.tied)}" if self.tied else ""
        return f"Use {self.best.label}{tied}.{avoid}"

    def _range(self, good: Sequence[Group]) -> tuple[int, int] | None:
        """Return the least and the largest N of the good groups if N decides: none of the others is between them."""
        counts = sorted(group.plan.num_envs for group in good)
        others = {group.plan.num_envs for group in self.worse}
        is_split = any(counts[0] <= count <= counts[-1] for count in others)
        return None if is_split or len(set(counts)) < len(counts) else (counts[0], counts[-1])

    def command(self) -> str:
        """Return the command that trains the best group."""
        return train_command(self.best.spec, self.best.plan)


ALWAYS = ("env", "algo", "learning_rate", "total_timesteps")  # also if they have their defaults
SIZES = ("num_envs", "num_steps", "minibatch_size", "num_epochs")  # as they were planned
OTHER_SIZES = ("rollout_size", "num_minibatches")  # which follow from them
NOT_TRAINING = ("seed", "eval_after", "eval_every", "stop_at_return", "final_episodes", "monitor_gradients",
                "log_every", "checkpoint_every")  # fmt: skip


def train_command(spec: Spec, plan: Plan) -> str:
    """Return the command that trains a spec: its sizes as they were planned, and all settings that are no defaults."""
    values = {name: getattr(spec, name) for name in ALWAYS}
    if plan.replay is None:
        values |= {name: getattr(plan, name) for name in SIZES}
    left_out = (*NOT_TRAINING, *(OTHER_SIZES if plan.replay is None else ()))
    for field in fields(Spec):
        value = getattr(spec, field.name)
        if field.name not in (*values, *left_out) and value != field.default:
            values[field.name] = value
    return shlex.join(["rollshape", "train", *(part for item in values.items() for part in _flag(*item))])


def _flag(name: str, value: Any) -> list[str]:
    flag = "--" + name.replace("_", "-")
    if value is True:
        return [flag]
    if isinstance(value, dict):
        return [flag, *(f"{key}={option}" for key, option in value.items())]
    return [flag, *(map(str, value) if isinstance(value, (tuple, list)) else [str(value)])]


def choose_group(task: Task) -> TaskChoice | None:
    """Return the best group of a task and how the others compare; None if fewer than two groups have two runs."""
    returns = {label: values for label, values in task.final_returns().items() if len(values) >= MIN_RUNS}
    groups = [group for group in task.groups if group.label in returns]
    if len(groups) < 2:
        return None
    best, tied = best_and_ties({group.label: returns[group.label] for group in groups})
    others = [group for group in groups if group.label != best]
    return TaskChoice(
        task,
        next(group for group in groups if group.label == best),
        tuple(group for group in others if group.label in tied),
        tuple(group for group in others if group.label not in tied),
    )


def _list(groups: Sequence[Group]) -> str:
    """Return `16×32, 64×32 and 128×16`, the first ones if there are many."""
    labels = [group.label for group in groups]
    if len(labels) > MOST_LABELS:
        labels = [*labels[: MOST_LABELS - 1], f"{len(labels) - MOST_LABELS + 1} others"]
    return " and ".join([", ".join(labels[:-1]), labels[-1]] if len(labels) > 1 else labels)
