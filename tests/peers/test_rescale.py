"""Rescaled configs run in the real libraries, with the minibatches and settings that Rollshape predicts."""

import importlib

import pytest

from peers.checks import check_minibatches, check_settings
from rollshape import rescale, translate
from rollshape.geometry.dialects.policies import POLICIES, PolicyName

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

MODULES = {"sb3": "stable_baselines3", "rl_games": "rl_games", "rsl_rl": "rsl_rl", "skrl": "skrl"}
RECIPE = {"n_envs": 4, "n_steps": 8, "batch_size": 8, "n_epochs": 2, "n_timesteps": 64, "learning_rate": 1e-3}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("num_envs", [2, 6])
@pytest.mark.parametrize("dialect", MODULES)
def test_rescaled_configs_train_as_predicted(dialect: str, num_envs: int, policy: PolicyName) -> None:
    pytest.importorskip(MODULES[dialect])
    train = importlib.import_module(f"peers.drivers.{dialect}_driver").train
    result = rescale(translate(RECIPE, "sb3", dialect).config, dialect, num_envs, policy=policy)
    counted = train(result.config)
    check_minibatches(counted, dialect, result.config)
    check_settings(counted, dialect, result.config)
    assert len(counted.steps) == result.plan.num_updates
    assert counted.optimizer_steps == result.plan.gradient_steps
