"""Recommendations in reports: which groups are tied with the best, and the grid of a race."""

import shlex
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rollshape.cli.flags import given_flags
from rollshape.reports.advice_section import recommend_in_sentences, recommended_commands
from rollshape.reports.figures.race import race_grid
from rollshape.studies.racing.advice import Advice, Ranked
from rollshape.studies.racing.race import Candidate
from rollshape.studies.racing.why import describe_groups, join_labels
from rollshape.studies.recommendation import choose_group, train_command
from rollshape.studies.trials import Trial
from rollshape.training.spec import Spec


def task(scores: dict[str, list[float]]) -> Any:
    groups = [
        SimpleNamespace(
            label=label, plan=SimpleNamespace(replay=None, num_envs=int(label.split("×")[0])), spec=Spec(), runs=values
        )
        for label, values in scores.items()
    ]
    returns = {label: np.array(values) for label, values in scores.items()}
    return SimpleNamespace(label="CartPole-v1", groups=groups, final_returns=lambda: returns)


def test_the_best_group_those_tied_with_it_and_those_to_avoid() -> None:
    choice = choose_group(task({"2×8": [90.0, 100.0, 95.0], "4×4": [91.0, 99.0, 94.0], "8×2": [10.0, 12.0, 11.0]}))
    assert choice is not None
    assert (choice.best.label, [group.label for group in choice.tied]) == ("2×8", ["4×4"])
    assert choice.sentence() == "Use 2×8; statistically tied: 4×4. Avoid 8×2: significantly lower final return."


GOOD, POOR = [90.0, 100.0, 95.0, 92.0], [10.0, 12.0, 11.0, 9.0]


def test_a_range_of_environments_is_named_as_one() -> None:
    choice = choose_group(task({"2×64": GOOD, "8×16": [91.0, *GOOD[1:]], "16×8": GOOD, "64×2": POOR, "128×1": POOR}))
    assert choice is not None
    assert choice.sentence() == (
        "Use 2 to 16 environments: 2×64, 8×16 and 16×8 are statistically tied, 8×16 is the highest. "
        "Avoid 64×2 and 128×1: significantly lower final return."
    )
    choice = choose_group(task({"2×64": GOOD, "8×16": POOR, "16×8": GOOD, "64×2": GOOD}))
    assert choice is not None
    assert choice.sentence().startswith("Use 2×64; statistically tied: 16×8 and 64×2. Avoid 8×16")


def test_shapes_that_do_not_differ_are_not_recommended_over_each_other() -> None:
    choice = choose_group(task({"2×8": GOOD, "4×4": GOOD}))
    assert choice is not None
    assert choice.sentence() == "No significant difference: 2×8 and 4×4 are statistically tied. Highest: 2×8."


@pytest.mark.parametrize(
    "spec",
    [
        Spec(num_envs=32, rollout_size=2048, num_minibatches=4),
        Spec(num_envs=7, num_steps=9, minibatch_size=10, on_remainder="warn", gae_lambda=0.9, hidden_sizes=(8, 16)),
        Spec(algo="a2c", num_envs=8, num_steps=5, normalize_observations=True, env_kwargs={"max_steps": 50}),
        Spec(algo="reinforce", num_envs=8, num_steps=500, returns="episode", baseline="none", seed=3, log_every=2),
        Spec(algo="rrd", env="Pendulum-v1", rrd_batch_size=512, rrd_sample_size=32, total_timesteps=20_000),
    ],
)
def test_the_command_trains_the_same(spec: Spec) -> None:
    command = shlex.split(train_command(spec, spec.plan()))
    assert command[:2] == ["rollshape", "train"]
    again = Spec(**given_flags(Spec, "train", command[2:]))
    for name in ("num_envs", "num_steps", "split", "num_epochs", "num_updates", "gradient_steps", "replay"):
        assert getattr(again.plan(), name) == getattr(spec.plan(), name), name
    sizes = ("rollout_size", "num_minibatches", "num_steps", "minibatch_size", "num_epochs", "seed", "log_every")
    same = {field.name for field in fields(Spec)} - set(sizes)
    assert {name: getattr(again, name) for name in same} == {name: getattr(spec, name) for name in same}


def test_one_run_per_group_is_no_recommendation() -> None:
    assert choose_group(task({"2×8": [90.0], "4×4": [10.0]})) is None


def ranked(num_envs: int, num_steps: int, status: Any, score: float | None, runs: int = 1) -> Ranked:
    spec = Spec(num_envs=num_envs, num_steps=num_steps)
    trial = Trial("t", "g", {"num_envs": num_envs, "num_steps": num_steps}, 0, spec, spec.plan())
    return Ranked(Candidate((trial,)), status, score, None, None, score if runs else None, runs, 100, "")


def test_a_race_that_is_not_over_gives_no_advice() -> None:
    race = SimpleNamespace(next_trials=lambda: ["trial"])
    data: Any = SimpleNamespace(state=SimpleNamespace(race=race), tasks=[])
    assert recommend_in_sentences(data) == ["The race is not over: run the same command again to resume it."]
    assert recommended_commands(data) == []


def test_the_grid_of_a_race(tmp_path: Path) -> None:
    ranking = (
        ranked(8, 32, "best", 9.0, 2), ranked(32, 8, "tied", 8.0), ranked(8, 8, "dropped", 1.0),
        ranked(8, 128, "tied", 6.0, 0), ranked(32, 32, "dropped", None, 0),
    )  # fmt: skip
    figure = race_grid("race", Advice(ranking, 1.0, 100, 0.1), "caption")
    for text in ("best, 2 runs", "tied, 1 run", "not trained", "failed", ">1 run<"):
        assert text in figure.svg
    out = replace(ranking[2], ruled_out_after=6)
    assert "out after 6 runs" in race_grid("race", Advice((*ranking[:2], out), 1.0, 100, 0.1), "caption").svg
    assert figure.csv.splitlines()[1:3] == ["8,32,9.0,1.0,best,9.0,2", "32,8,8.0,0.875,tied,8.0,1"]
    (tmp_path / "race.png").write_bytes(figure.png)


def test_without_a_scale_a_shape_that_was_not_trained_has_no_score() -> None:
    ranking = (ranked(8, 32, "best", 0.0), ranked(32, 8, "tied", 0.0), ranked(8, 8, "tied", None, 0))
    figure = race_grid("race", Advice(ranking, 1.0, 100, 0.1), "caption")
    assert "not trained" in figure.svg
    assert "failed" not in figure.svg


def test_shapes_that_were_not_trained_are_not_called_tied() -> None:
    ranking = (
        ranked(8, 32, "best", 9.0), ranked(32, 8, "tied", 8.0), ranked(8, 8, "tied", 4.0, 0),
        ranked(32, 32, "dropped", 1.0, 0),
    )  # fmt: skip
    assert describe_groups(Advice(ranking, 1.0, 100, 0.1)) == [
        "Tied: 32×8.",
        "Not trained and not ruled out: 8×8.",
        "Avoid: 32×32.",
    ]
    assert describe_groups(Advice(ranking[:1], 1.0, 100, 0.1)) == []


def test_labels_with_commas_are_separated_by_semicolons() -> None:
    assert join_labels(["8×16", "16×8"]) == "8×16, 16×8"
    assert join_labels(["8×16", "16×8, learning_rate 0.001"]) == "8×16; 16×8, learning_rate 0.001"
