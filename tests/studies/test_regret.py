"""Rescaling studies: points are what `rescale` emits, groups are matched to policies, regret is in recipe units."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reports.runs import write_run

from rollshape.errors import RequestError
from rollshape.geometry.dialects import rescale
from rollshape.studies.builtin import load_builtin
from rollshape.studies.groups import Task, group_tasks
from rollshape.studies.records import read_records
from rollshape.studies.regret import compare_policies, match_policies, scaled_scores
from rollshape.studies.rescaling import MEASURED, rescaled_points
from rollshape.studies.rules import judge_claims
from rollshape.studies.study_file import study_from_dict
from rollshape.studies.trials import expand
from rollshape.training.spec import Spec

RECIPE: dict[str, Any] = {
    "env": "CartPole-v1",
    "num_envs": 8,
    "num_steps": 16,
    "num_minibatches": 4,
    "num_epochs": 2,
    "learning_rate": 1e-3,
    "total_timesteps": 4096,
}
RULE = "changing-envs-only-is-enough"


def runs(center: float, seed: int = 0) -> Any:
    return center + 0.01 * np.random.default_rng(seed).normal(size=10)


def test_points_are_what_the_command_emits() -> None:
    points = list(rescaled_points({}, RECIPE, [2, 32], MEASURED))
    assert points[0] == RECIPE
    assert len(points) == 1 + 2 * len(MEASURED)
    for policy, point in zip(MEASURED, points[1:], strict=False):
        assert point == rescale(RECIPE, "rollshape", 2, policy=policy).config


def test_a_study_file_rescales_its_points() -> None:
    study = study_from_dict({"points": [RECIPE], "rescale": {"num_envs": [4], "policies": ["sqrt-lr"]}}, "x")
    assert [point["learning_rate"] for point in study.points] == [1e-3, 0.000707]
    assert study_from_dict(study.to_dict(), "x").points == study.points, "the journal contains the points themselves"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"rescale": {"num_envs": 4}}, "rescale.num_envs is 4"),
        ({"rescale": {"num_envs": [4], "policies": ["keep"]}}, "no policy 'keep'"),
        ({"rescale": {"counts": [4]}}, "rescale has no key 'counts'"),
        ({"rescale": {"num_envs": ["many"]}}, "num_envs"),
        ({"points": [{"num_envs": 8}], "fixed": {"num_steps": 16, "total_timesteps": 4096, "learning_rate": 1e-3},
          "rescale": {"num_envs": [4]}}, "which is fixed"),
    ],
)  # fmt: skip
def test_wrong_rescale_keys(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(RequestError, match="study") as error:
        study_from_dict({"points": [RECIPE], **change}, "the study x")
    assert problem in error.value.message


def test_the_builtin_study_is_legal_and_aligned() -> None:
    study = load_builtin("rescale")
    expansion = expand(study)
    assert not expansion.illegal
    assert expansion.aligned
    tasks = {trial.spec.env for trial in expansion.trials}
    assert len(tasks) >= 4
    assert len(expansion.trials) == len(tasks) * (1 + 4 * len(MEASURED)) * 10


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """A study of the recipe at N × ½ in which keep-rollout scores highest, and the recipe itself 1000."""
    level = {"keep-rollout": 900.0, "keep-minibatch": 500.0}
    points = [(RECIPE, 1000.0)] + [
        (rescale(RECIPE, "rollshape", 4, policy=name).config, level.get(name, 700.0)) for name in MEASURED
    ]
    for number, (point, score) in enumerate(points):
        for seed in range(10):
            write_run(tmp_path / f"{number}-{seed}", Spec(**point, seed=seed), score, start=0.0)
    (found,) = group_tasks(read_records(tmp_path))
    return found


def test_groups_are_matched_and_scaled_to_the_recipe(task: Task) -> None:
    matched = match_policies(task)
    assert matched is not None
    assert matched.recipe.plan.num_envs == 8
    assert set(matched.groups) == {0.5}
    assert set(matched.groups[0.5]) == set(MEASURED)
    final = scaled_scores(matched, by_area=False)[0.5]
    assert float(np.mean(final["keep-rollout"])) == pytest.approx(0.9, abs=0.01)
    assert "keep-updates" not in scaled_scores(matched, by_area=True)[0.5], "it has another budget"


def test_regret_and_ties() -> None:
    first = {"keep-minibatch": runs(1.0), "keep-rollout": runs(1.0, 1), "sqrt-lr": runs(0.5, 2)}
    second = {"keep-minibatch": runs(0.8, 3), "keep-rollout": runs(0.8, 4), "sqrt-lr": runs(0.9, 5)}
    result = compare_policies(0.5, [first, second])
    assert set(result.tied) == {"keep-minibatch", "keep-rollout"}
    lost = result.scores["sqrt-lr"]
    assert lost.regret.value == pytest.approx(0.2, abs=0.02)
    assert lost.regret.low is not None
    assert lost.regret.low > 0.15
    assert lost.versus["keep-minibatch"].value == pytest.approx(-0.2, abs=0.02)
    assert result.scores[result.best].regret.value == 0


def test_another_budget_is_never_the_best() -> None:
    result = compare_policies(4, [{"keep-updates": runs(2.0), "sqrt-lr": runs(1.0, 1)}])
    assert result.best == "sqrt-lr"
    assert result.tied == ("sqrt-lr",)
    assert result.scores["keep-updates"].regret.value == pytest.approx(-1, abs=0.02)


def test_the_verdict_names_the_best_policy(task: Task) -> None:
    verdict = judge_claims(RULE, "It is enough.", [task])[0]
    assert verdict.answer == "refuted"
    assert verdict.numbers["0.5"]["best"] == "keep-rollout"
    assert "num_envs × 0.5: best keep-rollout" in verdict.reasons[0]


def test_without_a_recipe_nothing_is_judged(tmp_path: Path) -> None:
    write_run(tmp_path / "a", Spec(**RECIPE), 100.0)
    verdict = judge_claims(RULE, "It is enough.", group_tasks(read_records(tmp_path)))[0]
    assert verdict.answer == "not settled"
