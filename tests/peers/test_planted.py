"""Failures that are planted in short runs of Stable-Baselines3 are named first.

`benchmarks/planted.py` does this at full length, for all failures and four libraries.
"""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import planted
from planted_runs.cases import CASES, HEALTHY
from planted_runs.train_sb3 import train
from tests.studies.test_diagnosis import SB3, foreign_run

from rollshape.studies.diagnosis import diagnose

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]
CHANGES = {
    "too few updates": "n_steps: 512 → 32",
    "reward scale 1e4": "VecNormalize(norm_reward=True)",
    "observations not normalized": "VecNormalize(norm_obs=True)",
    "synchronized resets": "n_steps: 10 → 256",
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_planted_failure_is_named_first(name: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == name)
    train(replace(case, num_updates=min(30, case.num_updates)), 0, tmp_path / "run")
    [found] = diagnose(tmp_path / "run")
    assert found.suspects[0].rule == case.suspect
    assert CHANGES[name] in found.suspects[0].fix
    assert found.record.trainer.name == "Stable-Baselines3"


def test_harm_is_measured_against_the_healthy_run_after_as_many_timesteps(tmp_path: Path) -> None:
    rising = [20.0 + 4 * row for row in range(100)]
    healthy = foreign_run(tmp_path / "healthy", "sb3", SB3, rows=100, episodic_return=rising)
    flat = foreign_run(tmp_path / "flat", "sb3", SB3, rows=100, episodic_return=[20.0] * 100)
    scaled = foreign_run(tmp_path / "scaled", "sb3", SB3, rows=100, episodic_return=[100 * x for x in rising])
    short = foreign_run(tmp_path / "short", "sb3", SB3, rows=20, episodic_return=rising[:20])
    assert planted.progress(flat, healthy, 1.0) == pytest.approx(0.0)
    assert planted.progress(scaled, healthy, 100.0) == pytest.approx(1.0)
    assert planted.progress(short, healthy, 1.0) == pytest.approx(1.0)
    assert planted.progress(healthy, flat, 1.0) is None  # the healthy run has not risen


def test_planted_runs_without_harm_are_counted_separately() -> None:
    case = next(case for case in CASES if case.suspect)
    harmed, harmless = (
        planted.Outcome("sb3", case, 2, "plateaued", True, [case.suspect], progress) for progress in (0.1, 0.9)
    )
    missed = planted.Outcome("sb3", case, 3, "plateaued", True, ["other", case.suspect], 0.1)
    alarm = planted.Outcome("sb3", HEALTHY["cartpole"], 2, "collapsed", True, [], None)
    found = planted.rates([harmed, harmless, missed, alarm])
    assert found == {
        "planted": 3, "without_harm": 1, "harmed": 2, "named_first": 1, "named_in_first_two": 2, "healthy": 1,
        "false_alarms": 1,
    }  # fmt: skip
