import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollshape
from rollshape.geometry.dialects import DIALECTS, fit, fit_config
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import read

ISAAC: dict[str, Any] = {
    "params": {
        "config": {
            "num_actors": -1,
            "horizon_length": 16,
            "minibatch_size": 8192,
            "mini_epochs": 8,
            "learning_rate": 5e-4,
        }
    }
}


def test_the_two_line_drop_in(capsys: pytest.CaptureFixture[str]) -> None:
    before = copy.deepcopy(ISAAC)
    fitted = rollshape.fit_config(ISAAC, dialect="rl_games", num_envs=16)
    assert before == ISAAC, "the config itself is not touched"
    assert fitted["params"]["config"]["minibatch_size"] == 128
    assert capsys.readouterr().out.splitlines()[:6] == [
        "[INFO]: Batch configuration:",
        "         num_actors     = 16",
        "         horizon_length = 16",
        "         batch_size     = 256",
        "         minibatch_size = 128 (auto-calculated) rollout/2: from 256 to 1,023 samples",
        "         mini_epochs    = 8",
    ]


@pytest.mark.parametrize("num_envs", [4, 16, 256, 1000, 1024, 1031, 2048])
def test_any_number_of_environments(num_envs: int) -> None:
    config = fit_config(ISAAC, "isaaclab", num_envs, verbose=False)["params"]["config"]
    assert num_envs * 16 % config["minibatch_size"] == 0
    assert config["num_actors"] == -1, "the script fills it in"


def test_a_legal_value_of_the_users_is_kept() -> None:
    assert fit_config(ISAAC, "isaaclab", 2048, verbose=False) == ISAAC
    result = fit(ISAAC, "isaaclab", num_envs=1024)
    assert result.edits == ()
    assert result.learning_rate_note() == ""


def test_a_number_in_the_file_follows_the_number_of_environments() -> None:
    config = {"num_actors": 64, "horizon_length": 16, "minibatch_size": 256, "mini_epochs": 4}
    assert fit_config(config, "rl_games", 32, verbose=False)["num_actors"] == 32


def test_minibatch_size_per_env_and_defaults() -> None:
    config = {"num_actors": 12, "horizon_length": 16, "minibatch_size_per_env": 5, "mini_epochs": 4}
    fitted = fit_config(config, "rl_games", verbose=False)
    assert 12 * 16 % fitted["minibatch_size"] == 0
    sb3 = fit_config({"n_envs": 3, "n_steps": 100}, "sb3", verbose=False)  # 300 samples, and SB3's 64 does not divide
    assert sb3["batch_size"] == 150


def test_the_learning_rate_note() -> None:
    note = fit(ISAAC, "isaaclab", num_envs=16).learning_rate_note()
    assert "8,192 to 128" in note
    assert "6.25e-05" in note


CONFIGS: dict[str, dict[str, Any]] = {
    "sb3": {"n_envs": 8, "n_steps": 100, "batch_size": 64},
    "cleanrl": {"num_envs": 8, "num_steps": 100, "num_minibatches": 16},
    "rl_games": {"num_actors": 8, "horizon_length": 12, "minibatch_size": 100, "mini_epochs": 2},
    "rsl_rl": {"num_envs": 8, "num_steps_per_env": 25, "num_mini_batches": 16},
    "skrl": {"num_envs": 8, "rollouts": 25, "mini_batches": 16},
    "rllib": {"num_envs_per_env_runner": 8, "train_batch_size_per_learner": 1000, "minibatch_size": 300},
    "brax": {"num_envs": 8, "unroll_length": 10, "batch_size": 32, "num_minibatches": 16},
    "sample_factory": {"num_workers": 2, "num_envs_per_worker": 4, "rollout": 32, "batch_size": 1000},
    "pufferlib": {"vec": {"num_envs": 8}, "train": {"bptt_horizon": 64, "minibatch_size": 100}},
    "torchrl": {"num_envs": 8, "frames_per_batch": 1000, "mini_batch_size": 64},
    "tianshou": {"num_training_envs": 8, "collection_step_num_env_steps": 1000, "batch_size": 64},
    "acme": {"num_actors": 8, "unroll_length": 10, "batch_size": 100, "num_minibatches": 8},
    "baselines_ppo1": {"mpi_ranks": 8, "timesteps_per_actorbatch": 100, "optim_batchsize": 64},
    "dopamine": {"update_period": 1000, "batch_size": 64},
}


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(sorted(CONFIGS)), st.integers(1, 300))
def test_every_dialect_is_made_legal_for_every_number_of_environments(name: str, num_envs: int) -> None:
    wanted = None if name == "dopamine" else num_envs
    fitted = fit_config(CONFIGS[name], name, wanted, verbose=False)
    recipe = read(fitted, DIALECTS[name], num_envs=wanted).recipe
    plan = predict(DIALECTS[name], recipe)  # raises where the library would refuse
    assert plan.dropped == 0
    assert plan.rollout_size % plan.minibatch_size == 0
    assert fit(fitted, name, num_envs=wanted).edits == (), "what is legal stays"
