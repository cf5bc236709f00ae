"""Regret of the policies of `rollshape rescale`, from a finished study: the table of docs/results.md.

rollshape study rescale --out DIR
.venv/bin/python benchmarks/rescale.py DIR            # prints the table
.venv/bin/python benchmarks/rescale.py DIR --write    # also updates what the command knows
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rollshape.geometry.dialects.rescale_evidence import EVIDENCE_FILE
from rollshape.studies.groups import Task, group_tasks
from rollshape.studies.records import read_records
from rollshape.studies.regret import ENVS_ONLY_FORMS, PolicyComparison, PolicyScore, match_policies
from rollshape.studies.rules.rescale import compare_study
from rollshape.studies.statistics import Summary, summarize

COMMAND = "rollshape study rescale --out DIR && python benchmarks/rescale.py DIR --write"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dirs", type=Path, nargs="+", metavar="DIR", help="the study `rescale`, or one part per task")
    parser.add_argument("--write", action="store_true", help=f"write {EVIDENCE_FILE.name}")
    args = parser.parse_args()
    tasks = group_tasks([record for folder in args.dirs for record in read_records(folder)])
    curves, finals = compare_study(tasks, by_area=True), compare_study(tasks, by_area=False)
    for task in tasks:
        print(describe_task(task))
    for title, comparisons in (("mean height of the curve", curves), ("final return", finals)):
        print(f"\n{title}\n")
        print("\n".join(markdown("regret", comparisons, lambda score: score.regret)))
    for form in ENVS_ONLY_FORMS:
        print(f"\nmean height of the curve minus that of {form}\n")
        print("\n".join(markdown("gain", curves, lambda score, form=form: score.versus[form])))
    if args.write:
        EVIDENCE_FILE.write_text(json.dumps(evidence(tasks, curves, finals), indent=1) + "\n", encoding="utf-8")
        print(f"\nwritten: {EVIDENCE_FILE}")


def describe_task(task: Task) -> str:
    matched = match_policies(task)
    if matched is None:
        return f"{task.label}: no recipe"
    plan, spec = matched.recipe.plan, matched.recipe.spec
    return (
        f"{task.label}: {plan.num_envs}×{plan.num_steps}, {plan.num_minibatches} minibatches of {plan.minibatch_size}, "
        f"{plan.num_epochs} epochs, lr {spec.learning_rate:g}, {plan.actual_timesteps:,} steps: final return "
        f"{summarize(task.final_returns()[matched.recipe.label])}"
    )


def markdown(title: str, comparisons: list[PolicyComparison], value: Callable[[PolicyScore], Summary]) -> list[str]:
    """Return the table: a row per policy, a column per factor; ties with the best are bold."""
    names = list(dict.fromkeys(name for comparison in comparisons for name in comparison.scores))
    lines = [f"| {title} | " + " | ".join(f"N × {comparison.factor:g}" for comparison in comparisons) + " |"]
    lines.append("|---" * (len(comparisons) + 1) + "|")
    for name in names:
        cells = []
        for comparison in comparisons:
            score = comparison.scores.get(name)
            text = "" if score is None else percent(value(score))
            cells.append(f"**{text}**" if name in comparison.tied else text)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def percent(value: Summary) -> str:
    return f"{100 * value.value:.0f} % [{100 * (value.low or 0):.0f}, {100 * (value.high or 0):.0f}]"


def evidence(tasks: list[Task], curves: list[PolicyComparison], finals: list[PolicyComparison]) -> dict[str, Any]:
    """Return what the command prints: regrets by factor and policy, in shares of the recipe's own rise."""
    by_factor = {comparison.factor: comparison for comparison in finals}
    return {
        "command": COMMAND,
        "tasks": [task.label for task in tasks],
        "seeds": min(len(group.runs) for task in tasks for group in task.groups),
        "factors": [
            {
                "factor": comparison.factor,
                "best": comparison.best,
                "tied": list(comparison.tied),
                "policies": {
                    name: {
                        "regret": triple(score.regret) if (score := comparison.scores.get(name)) else None,
                        "versus_envs_only": (
                            {form: triple(value) for form, value in score.versus.items()} if score else None
                        ),
                        "final_regret": triple(by_factor[comparison.factor].scores[name].regret),
                    }
                    for name in by_factor[comparison.factor].scores
                },
            }
            for comparison in curves
        ],
    }


def triple(value: Summary) -> list[float | None]:
    """Return [value, low, high], to three decimals."""
    return [None if number is None else round(number, 3) for number in (value.value, value.low, value.high)]


if __name__ == "__main__":
    main()
