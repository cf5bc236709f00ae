"""Small runs that are probed: a delay chain whose every mean is known, and a lake whose episodes are short."""

import sys
from pathlib import Path
from typing import Any

import pytest

from rollshape.probes.subject import Checkpoint, ProbedRun
from rollshape.training.run import TrainedRun, train

sys.path.insert(0, str(Path(__file__).parents[1] / "gradients"))

CHAIN: dict[str, Any] = {
    "env": "DelayChain-v0", "env_kwargs": {"delay": 2, "density": 0.5, "mixing": 4, "period": 4}, "num_envs": 8,
    "num_steps": 4, "num_epochs": 2, "total_timesteps": 32 * 12, "hidden_sizes": (8,), "gamma": 0.9, "gae_lambda": 0.8,
    "learning_rate": 1e-2, "log_every": 4,
}  # fmt: skip


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    return train(out=tmp_path_factory.mktemp("runs") / "chain", keep_checkpoints=3, **CHAIN)


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    options = {**CHAIN, "env": "FrozenLake-v1", "env_kwargs": None}
    return train(out=tmp_path_factory.mktemp("runs") / "lake", keep_checkpoints=3, **options)


@pytest.fixture(scope="session")
def checkpoint(chain: TrainedRun) -> Checkpoint:
    """The latest of the chain, one object for all tests: programs are compiled for its environment."""
    run = ProbedRun(chain)
    return run.checkpoint(run.find_update(None))
