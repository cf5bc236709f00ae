"""The scope of a verdict: on which task, with which budget, learning rate and number of seeds it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rollshape.studies.groups import Task


def describe_scope(tasks: Sequence[Task]) -> str:
    """Return `CartPole-v1 (164k steps, lr 3e-4, 10 seeds)`; tasks with equal settings share one parenthesis."""
    labels: dict[str, list[str]] = {}
    for task in tasks:
        labels.setdefault(_describe_settings(task), []).append(task.label)
    return "; ".join(f"{', '.join(names)} ({settings})" for settings, names in labels.items())


def _describe_settings(task: Task) -> str:
    return describe_settings(
        [group.plan.total_timesteps or 0 for group in task.groups],
        [group.spec.learning_rate for group in task.groups],
        [len(group.runs) for group in task.groups],
    )


def describe_settings(budgets: Sequence[int], rates: Sequence[float], seeds: Sequence[int]) -> str:
    """Return `164k steps, lr 3e-4, 10 seeds`, from the values of all groups."""
    plural = "seed" if max(seeds) == 1 else "seeds"
    return ", ".join(
        (
            f"{_range([_format_count(budget) for budget in sorted(budgets)])} steps",
            f"lr {_range([_format_rate(rate) for rate in sorted(rates)])}",
            f"{_range([str(count) for count in sorted(seeds)])} {plural}",
        )
    )


def _range(texts: Sequence[str]) -> str:
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


def _format_count(count: int) -> str:
    """Return `164k` for 163,840 and `1.5M` for 1,500,000."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return str(count)


def _format_rate(rate: float) -> str:
    """Return `3e-4` for 0.0003 and `2.5e-4` for 0.00025."""
    mantissa, _, exponent = f"{rate:.2e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"
