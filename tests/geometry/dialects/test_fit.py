import copy
import random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import rollshape
from random_configs import random_config, random_size
from rollshape.errors import RequestError
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
        "         minibatch_size = 128 (auto-calculated) rollout/2 for 256 to 1,023 samples",
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
    assert fit_config({"n_envs": 3, "n_steps": 43}, "sb3", verbose=False)["batch_size"] == 43  # 64, 64 and one left


def test_sizes_that_work_are_kept() -> None:
    for name, config in (
        ("sb3", {"n_envs": 4, "n_steps": 25, "batch_size": 64}),  # a short last minibatch is trained
        ("rllib", {"num_envs_per_env_runner": 4, "train_batch_size_per_learner": 4000, "minibatch_size": 128}),  # wraps
        ("tianshou", {"num_training_envs": 4, "collection_step_num_env_steps": 1000, "batch_size": 64}),  # merges
        ("skrl", {"num_envs": 4, "rollouts": 4, "mini_batches": 3}),  # balances
    ):
        assert fit_config(config, name, verbose=False) == config


def test_a_hyperparameter_never_stops_a_fit() -> None:
    loaded = yaml.safe_load(
        "num_actors: -1\nhorizon_length: 16\nminibatch_size: 8192\nmini_epochs: 8\nlearning_rate: 5e-4\n"
    )
    assert loaded["learning_rate"] == "5e-4"
    for rate in ("5e-4", len, [1e-3, 1e-4], float("nan"), None):
        assert fit_config({**loaded, "learning_rate": rate}, "rl_games", 16, verbose=False)["minibatch_size"] == 128


def test_what_multiplies_or_overrides_a_size_is_fitted_with_it() -> None:
    seq = {"num_actors": 4, "horizon_length": 5, "minibatch_size": 5, "mini_epochs": 2, "seq_length": 8}
    assert fit_config(seq, "rl_games", verbose=False) == {**seq, "seq_length": 4}
    central = {"num_actors": 16, "horizon_length": 16, "minibatch_size": 8192, "mini_epochs": 2}
    central["central_value_config"] = {"minibatch_size": 8192}
    assert fit_config(central, "rl_games", verbose=False)["central_value_config"]["minibatch_size"] == 128
    by_count = {"n_steps": 16, "batch_size": 64, "n_minibatches": 5}
    fitted = fit_config(by_count, "isaaclab:sb3", 1, verbose=False)  # five of three, and one left over
    assert fitted == {**by_count, "n_minibatches": 4}
    puffer = {"vec": {"num_envs": 2}, "env": {"num_envs": 16}, "train": {"bptt_horizon": 64, "minibatch_size": 100}}
    assert fit_config(puffer, "pufferlib", verbose=False)["vec"]["num_envs"] == 2


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
    assert plan.last_minibatch_size > 1 or plan.minibatch_size == 1
    assert fit(fitted, name, num_envs=wanted).edits == (), "what is legal stays"


ENVIRONMENTS = ("num_envs", "workers", "envs_per_worker")


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_a_fitted_config_is_read_back_and_stays(name: str) -> None:
    """fit(fit(c)) = fit(c), and the config's own reader gets the requested number of environments and a legal split."""
    source, dialect, fitted_configs = random.Random(name), DIALECTS[name], 0
    for _ in range(60):
        config = random_config(source, dialect)
        num_envs = None if name == "dopamine" else source.choice((None, source.randint(1, 16), random_size(source)))
        try:
            fitted = fit_config(config, name, num_envs, verbose=False)
        except RequestError as error:
            if error.rule == "divisibility":
                assert_impossible(error)
            continue
        fitted_configs += 1
        assert fit_config(fitted, name, num_envs, verbose=False) == fitted, config
        parsed = read(fitted, dialect, num_envs=num_envs)
        assert not dialect.problem(parsed.recipe)
        assert num_envs in (None, parsed.recipe.num_envs)
        if any(key.concept in ENVIRONMENTS and parsed.values.get(key.name) is not None for key in dialect.keys):
            assert read(fitted, dialect).recipe == parsed.recipe, (config, num_envs, fitted)
            assert fit_config(fitted, name, verbose=False) == fitted
    assert fitted_configs > 10


def assert_impossible(error: RequestError) -> None:
    """SB3 needs two samples, and RLlib's learners equal parts: no change of the minibatch helps."""
    assert "must be greater than 1" in error.message or "learners" in error.message


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_what_the_library_accepts_is_not_changed(name: str) -> None:
    source, dialect = random.Random(name), DIALECTS[name]
    for _ in range(100):
        config = random_config(source, dialect)
        try:
            plan = predict(dialect, read(config, dialect).recipe)
        except RequestError:
            continue
        if plan.dropped == 0 and plan.last_minibatch_size > 1:
            changed = {change.path[-1] for change in fit(config, name).edits}
            assert changed <= {"buffer_size", "minibatch_size", "central_value_config.minibatch_size"}, config
            if "minibatch_size" in changed:
                assert "central_value_config" in str(config), "whose minibatch must divide the rollout, too"


def test_agents_of_pufferlib() -> None:
    config = {"vec": {"num_envs": 4}, "env": {"num_envs": 3}, "train": {"bptt_horizon": 64, "minibatch_size": 128}}
    fitted = fit_config(config, "pufferlib", 7, verbose=False)
    assert (fitted["vec"]["num_envs"], fitted["env"]["num_envs"]) == (7, 1)
    assert read(fitted, DIALECTS["pufferlib"]).recipe.num_envs == 7
    fitted = fit_config(config, "pufferlib", 9, verbose=False)
    assert (fitted["vec"]["num_envs"], fitted["env"]["num_envs"]) == (3, 3)


def test_whole_rollouts_of_rllib_are_null() -> None:
    config = {"num_env_runners": 1, "num_envs_per_env_runner": 14, "train_batch_size_per_learner": 4}
    fitted = fit_config(config, "rllib", verbose=False)
    assert fitted["minibatch_size"] is None
    assert read(fitted, DIALECTS["rllib"]).recipe.rollout_size == 14


def test_sizes_of_rollshape() -> None:
    for config in ({"num_envs": 8, "num_steps": 16, "num_minibatches": 4}, {"num_envs": 8, "num_steps": 16}):
        assert fit_config(config, "rollshape", verbose=False) == config
    all_sizes = {"num_envs": 8, "num_steps": 16, "rollout_size": 128, "minibatch_size": 32, "num_minibatches": 4}
    fitted = fit_config(all_sizes, "rollshape", 6, verbose=False)
    assert fitted == {**all_sizes, "num_envs": 6, "rollout_size": 96, "num_minibatches": 3}
    with pytest.raises(RequestError, match="32 × 4 = 128, but the rollout has 100 samples"):
        fit_config({**all_sizes, "rollout_size": 100}, "rollshape", verbose=False)


def test_a_key_is_not_added_to_a_file_in_which_the_library_does_not_read_it() -> None:
    system = {"system_name": "ff_ppo", "rollout_length": 128, "num_minibatches": 16, "epochs": 4}
    assert fit(system, "stoix").edits == ()
    with pytest.raises(
        RequestError, match=r"total_num_envs belongs to the section arch \(configs/arch/anakin\.yaml"
    ) as caught:
        fit(system, "stoix", num_envs=12)
    assert caught.value.rule == "fragment"
    assert "Set arch.total_num_envs to 12 there" in caught.value.fix
    whole = {"arch": {"total_num_envs": 1024}, "system": system}
    assert fit(whole, "stoix", num_envs=12).edits[0].path == ("arch", "total_num_envs")


def test_a_missing_section_is_added_as_a_section() -> None:
    nested = {"train": {"bptt_horizon": 64, "minibatch_size": 64}}
    assert fit(nested, "pufferlib", num_envs=4).edits[0].path == ("vec", "num_envs")
    dotted = {"train.bptt_horizon": 64, "train.minibatch_size": 64}
    assert fit(dotted, "pufferlib", num_envs=4).edits[0].path == ("vec.num_envs",)
