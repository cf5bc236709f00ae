"""Recommendations in reports: which groups are tied with the best, and the grid of a race."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from rollshape.reports.figures.race import race_grid
from rollshape.studies.racing.advice import CROSSING, Advice, Ranked, tie_limit
from rollshape.studies.racing.noise import UNKNOWN
from rollshape.studies.racing.race import Candidate
from rollshape.studies.racing.rule import Rung
from rollshape.studies.recommendation import choose_group
from rollshape.studies.trials import Trial
from rollshape.training.spec import Spec


def task(scores: dict[str, list[float]]) -> Any:
    groups = [
        SimpleNamespace(label=label, plan=SimpleNamespace(replay=None), spec=Spec(), runs=values)
        for label, values in scores.items()
    ]
    returns = {label: np.array(values) for label, values in scores.items()}
    return SimpleNamespace(label="CartPole-v1", groups=groups, final_returns=lambda: returns)


def test_the_best_group_those_tied_with_it_and_those_to_avoid() -> None:
    choice = choose_group(task({"2×8": [90.0, 100.0, 95.0], "4×4": [91.0, 99.0, 94.0], "8×2": [10.0, 12.0, 11.0]}))
    assert choice is not None
    assert (choice.best.label, [group.label for group in choice.tied]) == ("2×8", ["4×4"])
    assert choice.sentence() == "Use 2×8; statistically tied: 4×4. Avoid 8×2: significantly lower final return."


def test_one_run_per_group_is_no_recommendation() -> None:
    assert choose_group(task({"2×8": [90.0], "4×4": [10.0]})) is None


def ranked(num_envs: int, num_steps: int, status: Any, score: float | None, share: float) -> Ranked:
    spec = Spec(num_envs=num_envs, num_steps=num_steps)
    trial = Trial("t", "g", {"num_envs": num_envs, "num_steps": num_steps}, 0, spec, spec.plan())
    return Ranked(Candidate((trial,)), status, score, None, None, 100, share, 1, "")


def test_the_grid_of_a_race(tmp_path: Path) -> None:
    first = Rung(2, 0.1, 1, (0, 1, 2), {0: 5.0, 1: 4.0, 2: 1.0}, {0: 5.0, 1: 4.0, 2: 1.0}, UNKNOWN, 2)
    last = Rung(20, 1.0, 1, (0, 1), {0: 9.0, 1: 8.0}, {0: 9.0, 1: 8.0}, UNKNOWN, 2)
    ranking = (
        ranked(8, 32, "best", 9.0, 1.0), ranked(32, 8, "tied", 8.0, 1.0), ranked(8, 8, "dropped", 1.0, 0.1),
        ranked(32, 32, "dropped", None, 0.0),
    )  # fmt: skip
    figure = race_grid("race", Advice(ranking, (first, last), 100, 0.1), "caption")
    for text in ("best", "tied", "10%", "failed"):
        assert text in figure.svg
    assert figure.csv.splitlines()[1].startswith("8,32,9.0,1.0,best")
    (tmp_path / "race.png").write_bytes(figure.png)
    assert tie_limit(first, first) == CROSSING * 0.9 * 4.0
    assert tie_limit(last, first) == 0.0
