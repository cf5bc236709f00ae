from typing import Any

import pytest

from rollshape.errors import RequestError
from rollshape.geometry.dialects import DIALECTS, translate
from rollshape.geometry.dialects.config import read_keys
from rollshape.geometry.dialects.reading import read


def reading(values: dict[str, Any], dialect: str, key: str | None = None) -> Any:
    return read_keys(values, DIALECTS[dialect], key, DIALECTS)


def test_the_level_is_found() -> None:
    inner = {"num_actors": 16, "horizon_length": 8, "minibatch_size": 32, "mini_epochs": 2}
    assert reading(inner, "rl_games").level == ()
    assert reading({"params": {"seed": 1, "config": inner}}, "rl_games").level == ("params", "config")
    skrl = {"agent": {"rollouts": 8, "mini_batches": 2}, "trainer": {"timesteps": 100}, "num_envs": 4}
    assert reading(skrl, "skrl").paths["trainer.timesteps"] == ("trainer", "timesteps")
    assert reading({"exp": skrl}, "skrl").level == ("exp",)
    stoix = {"arch": {"total_num_envs": 8}, "system": {"rollout_length": 4}}
    assert reading(stoix, "stoix").values["system.rollout_length"] == 4


def test_a_file_of_many_environments_asks_which() -> None:
    zoo = {"CartPole-v1": {"n_envs": 8, "n_steps": 32}, "Pendulum-v1": {"n_envs": 4, "n_steps": 1024}}
    with pytest.raises(RequestError, match="2 levels of the file look like sb3") as caught:
        reading(zoo, "sb3")
    assert caught.value.alternatives == [{"key": "CartPole-v1"}, {"key": "Pendulum-v1"}]
    picked = reading(zoo, "sb3", "Pendulum-v1")
    assert picked.values["n_steps"] == 1024
    assert picked.other_keys == ()
    with pytest.raises(RequestError, match="no level 'CartPole'") as caught:
        reading(zoo, "sb3", "CartPole")
    assert "CartPole-v1" in caught.value.fix


@pytest.mark.parametrize(
    ("dialect", "wrong", "right"),
    [
        ("sb3", "n_step", "n_steps"),
        ("sb3", "num_steps", "n_steps"),
        ("sb3", "minibatch_size", "batch_size"),
        ("sb3", "N_STEPS", "n_steps"),
        ("sb3", "n-steps", "n_steps"),
        ("cleanrl", "num_mini_batches", "num_minibatches"),
        ("rl_games", "horizon_len", "horizon_length"),
        ("purejaxrl", "NUM_ENV", "NUM_ENVS"),
    ],
)
def test_a_near_miss_of_a_shape_key_is_an_error(dialect: str, wrong: str, right: str) -> None:
    other = next(key.name for key in DIALECTS[dialect].shape_keys if key.name != right)
    with pytest.raises(
        RequestError, match=f"{wrong} is not a key of {dialect}.\n  fix: Did you mean {right}"
    ) as caught:
        reading({other: 8, wrong: 4}, dialect)
    assert caught.value.rule == "misspelt-key"


def test_other_keys_are_not_preserved_and_not_errors() -> None:
    zoo = {
        "n_envs": 8, "n_steps": 32, "policy": "MlpPolicy", "normalize": "{'norm_obs': False}",
        "policy_kwargs": "dict(log_std_init=-2, activation_fn=nn.ReLU)", "use_sde": True, "clip_range_vf": None,
        "env_wrapper": [{"gymnasium.wrappers.X": {"n_stack": 2}}],
    }  # fmt: skip
    lost = translate(zoo, "sb3", "cleanrl").not_preserved
    for name in ("policy", "normalize", "policy_kwargs", "use_sde", "clip_range_vf", "env_wrapper"):
        assert f"{name}: no counterpart in cleanrl" in lost


def test_a_config_of_another_dialect_is_recognised() -> None:
    with pytest.raises(RequestError, match="contains none of the keys of sb3") as caught:
        reading({"NUM_ENVS": 4, "NUM_STEPS": 128, "UPDATE_EPOCHS": 4, "NUM_MINIBATCHES": 4}, "sb3")
    assert "--from purejaxrl" in caught.value.fix
    with pytest.raises(RequestError, match="contains none"):
        reading({"title": "a shopping list", "eggs": 6}, "sb3")


@pytest.mark.parametrize("value", [0, -3, 2.5, float("nan"), "sixty", True, [64], {"value": 64}, 10**30])
def test_a_bad_size_is_named(value: Any) -> None:
    with pytest.raises(RequestError):
        read({"n_envs": 8, "n_steps": 32, "batch_size": value}, DIALECTS["sb3"])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, 0])
def test_an_impossible_hyperparameter_is_named(value: Any) -> None:
    with pytest.raises(RequestError, match="learning_rate"):
        read({"n_envs": 8, "n_steps": 32, "learning_rate": value}, DIALECTS["sb3"])
    with pytest.raises(RequestError, match="gamma"):
        read({"n_envs": 8, "n_steps": 32, "gamma": 1.5}, DIALECTS["sb3"])


@pytest.mark.parametrize("value", ["fast", True, [1e-3], len])
def test_a_hyperparameter_that_is_no_number_is_not_preserved(value: Any) -> None:
    lost = translate({"n_envs": 8, "n_steps": 32, "learning_rate": value}, "sb3", "cleanrl").not_preserved
    assert f"learning_rate: {value!r} is not a number" in lost


def test_numbers_that_pyyaml_reads_as_text_are_numbers() -> None:
    assert (
        read({"n_envs": 8, "n_steps": 32, "learning_rate": "5e-4"}, DIALECTS["sb3"]).recipe.hyper["learning_rate"]
        == 5e-4
    )


def test_aliases_are_found_in_their_section() -> None:
    skrl = {"num_envs": 4, "agent": {"rollouts": 8, "lambda": 0.5}}
    assert read(skrl, DIALECTS["skrl"]).recipe.hyper["gae_lambda"] == 0.5
    torchrl = {"collector": {"frames_per_batch": 64}, "loss": {"critic_coef": 3, "mini_batch_size": 8}}
    assert read(torchrl, DIALECTS["torchrl"]).recipe.hyper["value_coef"] == 3
    scene = {"scene": {"num_envs": 64}, "num_steps_per_env": 8, "algorithm": {}}
    assert read(scene, DIALECTS["isaaclab:rsl_rl"]).recipe.num_envs == 64


def test_a_value_answers_to_one_key_only() -> None:
    flat = {"num_envs": 8, "bptt_horizon": 64, "minibatch_size": 512}
    assert read(flat, DIALECTS["pufferlib"]).recipe.num_envs == 8
    nested = {"vec": {"num_envs": 2}, "env": {"num_envs": 16}, "train": {"minibatch_size": 64}}
    assert read(nested, DIALECTS["pufferlib"]).recipe.num_envs == 32
    assert read(nested, DIALECTS["pufferlib"], num_envs=8).recipe.num_envs == 8


def test_a_config_of_an_off_policy_algorithm_is_recognised() -> None:
    with pytest.raises(RequestError, match="The config is off-policy") as caught:
        read({"n_envs": 1, "buffer_size": 1000, "learning_starts": 100, "batch_size": 256}, DIALECTS["sb3"])
    assert caught.value.rule == "family"


@pytest.mark.parametrize("config", [None, [1], "n_steps: 8", 5])
def test_a_config_that_is_no_mapping_is_a_message(config: Any) -> None:
    with pytest.raises(RequestError):
        translate(config, "sb3", "cleanrl")


def test_schedules_keep_their_start() -> None:
    heard = read({"n_envs": 8, "n_steps": 32, "learning_rate": "lin_0.001"}, DIALECTS["sb3"])
    assert heard.recipe.hyper["learning_rate"] == 0.001
    assert heard.reading.notes == ("learning_rate: lin_0.001 is a linear schedule; only its initial value is kept",)


def test_the_number_of_environments_comes_from_the_config_or_the_flag() -> None:
    config = {"num_steps_per_env": 24, "algorithm": {"num_mini_batches": 4}}
    with pytest.raises(RequestError, match="does not contain num_envs") as caught:
        read(config, DIALECTS["rsl_rl"])
    assert "--num-envs" in caught.value.fix
    assert read(config, DIALECTS["rsl_rl"], num_envs=4096).recipe.rollout_size == 98_304
    assert read({"n_envs": 2, "n_steps": 8}, DIALECTS["sb3"], num_envs=4).recipe.num_envs == 4
    minus = {"num_actors": -1, "horizon_length": 8, "minibatch_size": 8, "mini_epochs": 1}
    assert read(minus, DIALECTS["rl_games"], num_envs=4).recipe.num_envs == 4
