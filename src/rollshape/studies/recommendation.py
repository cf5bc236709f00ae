"""What to use according to a study whose runs have finished: the best group, those tied with it, and those to avoid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rollshape.studies.groups import Group, Task
from rollshape.studies.rules.comparison import best_and_ties

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
            return (
                f"No shape is significantly better: {_list(good)} are statistically tied. Highest: {self.best.label}."
            )
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
        plan, spec = self.best.plan, self.best.spec
        return (
            f"rollshape train --env {spec.env} --algo {spec.algo} --num-envs {plan.num_envs} --num-steps "
            f"{plan.num_steps} --minibatch-size {plan.minibatch_size} --num-epochs {plan.num_epochs} "
            f"--learning-rate {spec.learning_rate:g} --total-timesteps {spec.total_timesteps}"
        )


def choose_group(task: Task) -> TaskChoice | None:
    """Return the best group of a task and how the others compare; None if fewer than two groups have two runs."""
    returns = {label: values for label, values in task.final_returns().items() if len(values) >= MIN_RUNS}
    groups = [group for group in task.groups if group.label in returns and not group.plan.replay]
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
