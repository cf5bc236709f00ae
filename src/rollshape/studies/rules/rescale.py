"""The rule on rescaling: is it enough to change the number of environments?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rollshape.studies.regret import ENVS_ONLY_FORMS, PolicyComparison, compare_policies, match_policies, scaled_scores
from rollshape.studies.rules.base import Answer, ClaimVerdict, Effect, no_finished_runs, rule
from rollshape.studies.scope import describe_scope

if TYPE_CHECKING:
    from rollshape.studies.groups import Task


@rule(
    "changing-envs-only-is-enough",
    "With another number of environments, no policy that changes more scores higher than changing num_envs only.",
)
def changing_envs_only_is_enough(claim: str, tasks: Sequence[Task]) -> list[ClaimVerdict]:
    comparisons = compare_study(tasks, by_area=True)
    if not comparisons:
        return [no_finished_runs(claim, tasks)]
    signs = [form in comparison.tied for comparison in comparisons for form in ENVS_ONLY_FORMS]
    answer: Answer = "confirmed" if all(signs) else "depends" if any(signs) else "refuted"
    return [
        ClaimVerdict(
            claim,
            answer,
            [_describe(comparison) for comparison in comparisons],
            "By area under the curve, scaled to the recipe (0: its first score, 1: its mean height) and averaged over "
            "the tasks: confirmed if at every number of environments both keep-minibatch and keep-num-minibatches are "
            "statistically tied with the best policy (changing num_envs only is one or the other, by the keys of the "
            "library); refuted if neither ever is; mixed otherwise. Policies with another budget are left out.",
            describe_scope(tasks),
            {f"{comparison.factor:g}": {"best": comparison.best, "tied": list(comparison.tied)}
             for comparison in comparisons},
            effects=tuple(
                Effect(f"num_envs × {comparison.factor:g}: best policy minus {form}",
                       "area under the curve relative to the recipe", comparison.scores[form].regret)
                for comparison in comparisons for form in ENVS_ONLY_FORMS if form in comparison.scores
            ),
        )
    ]  # fmt: skip


def compare_study(tasks: Sequence[Task], *, by_area: bool) -> list[PolicyComparison]:
    """Compare the policies at every factor of num_envs that all tasks have; none without a recipe in every task."""
    matched = [rescaled for task in tasks if (rescaled := match_policies(task)) is not None]
    scored = [scaled_scores(rescaled, by_area=by_area) for rescaled in matched if rescaled.has_finished]
    if not scored or len(scored) < len(tasks):
        return []
    factors = [factor for factor in scored[0] if all(task.get(factor) for task in scored)]
    return [compare_policies(factor, [task[factor] for task in scored]) for factor in sorted(factors)]


def _describe(comparison: PolicyComparison) -> str:
    others = ", ".join(name for name in comparison.tied if name != comparison.best) or "none"
    worst = "; ".join(
        f"{name} loses {score.regret}" for name, score in comparison.scores.items() if name != comparison.best
    )
    return f"num_envs × {comparison.factor:g}: best {comparison.best}; statistically tied: {others}. {worst}."
