"""The rule on the learning rate: should it follow the square root of the minibatch size?

The recipe is the only group with its minibatch size. At every other size, c times as large, the groups with the
recipe's rate, with √c times and with c times that rate are compared.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rollshape.studies.rules.base import ClaimVerdict, no_finished_runs, task_rule
from rollshape.studies.rules.comparison import combine_answers, compare_pairs, measure_effect
from rollshape.studies.rules.monotone import AREA
from rollshape.studies.scope import describe_scope
from rollshape.studies.statistics import summarize

if TYPE_CHECKING:
    from rollshape.studies.groups import Group, Task
    from rollshape.studies.rules.base import Answer, Effect
    from rollshape.studies.statistics import Floats

POWERS = {"unchanged": 0.0, "√": 0.5, "linear": 1.0}
SIGNS = {1: "significantly better than", -1: "significantly worse than", 0: "not significantly different from"}


@task_rule(
    "sqrt-learning-rate-is-best",
    "For a minibatch c times as large, √c times the learning rate is better than 1 or c times the rate, and worse than "
    "neither.",
)
def sqrt_learning_rate_is_best(claim: str, task: Task) -> ClaimVerdict:
    areas = task.areas()
    recipe, sizes = _match_rates(task)
    if recipe is None or recipe.label not in areas:
        return no_finished_runs(claim, [task])
    answers: dict[int, Answer] = {}
    reasons = [f"The recipe, {recipe.label}: {summarize(areas[recipe.label])}."]
    effects: list[Effect] = []
    for size, labels in sizes.items():
        names = [name for name in POWERS if labels.get(name) in areas]
        if "√" not in names or len(names) < 2:
            continue
        signs = _compare_root(areas, {name: labels[name] for name in names})
        answers[size] = _answer(signs)
        comparison = " and ".join(f"{SIGNS[sign]} {name}" for name, sign in signs.items())
        rates = ", ".join(f"{name} {summarize(areas[labels[name]])}" for name in names)
        reasons.append(f"minibatch_size {size:,}: {rates}; √ is {comparison}.")
        for name in signs:
            contrast = f"minibatch_size {size:,}: √ minus {name} learning rate"
            effects += measure_effect(areas, labels[name], labels["√"], AREA, contrast)
    return ClaimVerdict(
        claim,
        combine_answers(list(answers.values())),
        reasons,
        "By area under the curve, at every minibatch size other than the recipe's: confirmed if √ is significantly "
        "better than the unchanged or the linear learning rate and significantly worse than neither, refuted if it is "
        "worse than one and better than neither, mixed if both, not settled if no comparison is significant. Over all "
        "sizes: the common answer, else mixed.",
        describe_scope([task]),
        {str(size): answer for size, answer in answers.items()},
        effects=tuple(effects),
    )


def _match_rates(task: Task) -> tuple[Group | None, dict[int, dict[str, str]]]:
    """Return the recipe, and minibatch size → rule → label of the group with the rule's learning rate."""
    by_size: dict[int, list[Group]] = {}
    for group in task.groups:
        by_size.setdefault(group.plan.minibatch_size, []).append(group)
    single = [groups[0] for groups in by_size.values() if len(groups) == 1]
    if len(single) != 1:
        return None, {}
    recipe = single[0]
    sizes = {}
    for size, groups in sorted(by_size.items()):
        if size == recipe.plan.minibatch_size:
            continue
        rates = {
            name: recipe.spec.learning_rate * (size / recipe.plan.minibatch_size) ** power
            for name, power in POWERS.items()
        }
        sizes[size] = {
            name: group.label
            for name, rate in rates.items()
            for group in groups
            if math.isclose(group.spec.learning_rate, rate, rel_tol=0.01)
        }
    return recipe, sizes


def _compare_root(areas: dict[str, Floats], labels: dict[str, str]) -> dict[str, int]:
    """Return for the unchanged and the linear rate whether √ is significantly better (1) or worse (−1)."""
    pairs = compare_pairs(areas, list(labels.values()))
    names = {label: name for name, label in labels.items()}
    signs = {}
    for pair in pairs:
        if pair.second == labels["√"]:
            signs[names[pair.first]] = pair.sign
        elif pair.first == labels["√"]:
            signs[names[pair.second]] = -pair.sign
    return signs


def _answer(signs: dict[str, int]) -> Answer:
    better, worse = 1 in signs.values(), -1 in signs.values()
    return "depends" if better and worse else "confirmed" if better else "refuted" if worse else "not settled"
