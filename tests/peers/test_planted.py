"""Failures that are planted in short runs of Stable-Baselines3 are named first.

`benchmarks/planted.py` does this at full length, for all failures and four libraries.
"""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from planted_runs.cases import CASES
from planted_runs.train_sb3 import train

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
