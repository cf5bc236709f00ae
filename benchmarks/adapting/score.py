"""Compare adaptive runs with fixed shapes: differences by seed, as a share of (best − untrained)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adapting.baselines import Baseline, read_baseline
from adapting.rules import Shape
from rollshape.studies.statistics import student_quantile

ROUNDING = 1e-4  # stored returns have five digits
EQUAL = 0.01  # a rule is at least as good as a shape if its mean is at most this far below


class Difference(NamedTuple):
    """A mean over seeds with its 95 % t-interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if max(abs(self.low), abs(self.high)) < ROUNDING:
            return "0 (same runs)"
        return f"{100 * self.mean:+.1f} % [{100 * self.low:+.1f}, {100 * self.high:+.1f}]".replace("-", "−")


def difference(values: Any) -> Difference:
    """Return the interval of paired differences, which are never all of one seed."""
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        raise ValueError("an interval needs two seeds")
    half = student_quantile(len(values) - 1) * float(values.std(ddof=1)) / len(values) ** 0.5
    mean = float(values.mean())
    return Difference(mean, mean - half, mean + half)


def print_tables(data: Path, tasks: Sequence[str], rules: Sequence[str]) -> None:
    """Print one Markdown table per fixed shape, and how often a rule is at least as good."""
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    baselines = {name: read_baseline(name) for name in tasks if any(row["task"] == name for row in rows)}
    for name, baseline in baselines.items():
        print(describe(name, baseline))
    for chosen in ("advised", "best"):
        print(f"\nDifference to the {chosen} fixed shape:\n")
        print("| rule | " + " | ".join(baselines) + " | at least as good on |")
        print("|---" * (len(baselines) + 2) + "|")
        for rule in rules:
            print(table_row(rule, rows, baselines, chosen))
    print("\nLast shapes:\n")
    for rule in rules:
        print(f"- {rule}: " + "; ".join(f"{name} {last_shapes(rows, name, rule)}" for name in baselines))


def describe(name: str, baseline: Baseline) -> str:
    best, advised = baseline.shape(baseline.best), baseline.shape(baseline.advised)
    regret = 100 * baseline.table.regret(baseline.advised)
    return (f"{name}: best {best}, advised {advised} (regret {regret:.1f} %, in {100 * baseline.advised_share:.0f} % "
            f"of the races), start {baseline.start}, rise {baseline.rise:.4g}")  # fmt: skip


def table_row(rule: str, rows: Sequence[dict[str, Any]], baselines: dict[str, Baseline], chosen: str) -> str:
    cells, good, worse, counted = [], 0, 0, 0
    for name, baseline in baselines.items():
        fixed = baseline.scores(baseline.best if chosen == "best" else baseline.advised)
        scores = {row["seed"]: float(np.mean(row["eval_return"])) for row in select(rows, name, rule)}
        if len(scores) < 2:
            cells.append("–")
            continue
        outcome = difference([(score - fixed[seed]) / baseline.rise for seed, score in scores.items()])
        good, worse, counted = good + (outcome.mean >= -EQUAL), worse + (outcome.high < 0), counted + 1
        cells.append(str(outcome))
    return f"| {rule} | " + " | ".join(cells) + f" | {good} of {counted} ({worse} clearly worse) |"


def select(rows: Sequence[dict[str, Any]], name: str, rule: str) -> list[dict[str, Any]]:
    return [row for row in rows if (row["task"], row["rule"]) == (name, rule)]


def last_shapes(rows: Sequence[dict[str, Any]], name: str, rule: str) -> str:
    counts = Counter(str(Shape(*row["shapes"][-1])) for row in select(rows, name, rule))
    return ", ".join(f"{shape} ({count})" for shape, count in counts.most_common())
