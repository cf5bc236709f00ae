"""PufferLib 3 and 4 have different keys: a config says which one it is for, or is refused."""

from typing import Any

import pytest

from rollshape.errors import RequestError
from rollshape.geometry.dialects import DIALECTS, fit_config, resolve, translate
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import read

THREE = {"vec": {"num_envs": 8}, "train": {"bptt_horizon": 64, "minibatch_size": 256}}
FOUR = {"vec": {"total_agents": 4096}, "train": {"horizon": 64, "minibatch_size": 32_768, "replay_ratio": 1.4}}


def test_the_version_is_recognized_by_its_keys() -> None:
    assert resolve("pufferlib", THREE).name == "pufferlib"
    assert resolve("pufferlib", FOUR).name == "pufferlib4"
    assert resolve("pufferlib", {"vec.total_agents": 64}).name == "pufferlib4"
    assert resolve("pufferlib", {"train.update_epochs": 2}).name == "pufferlib"
    assert resolve("pufferlib", None).name == "pufferlib"


@pytest.mark.parametrize(
    "config",
    [
        {"train": {"minibatch_size": 8192, "gamma": 0.99}},
        {"vec": {"total_agents": 64}, "train": {"bptt_horizon": 64}},
        {"env": {"num_envs": 4}, "train": {"total_timesteps": 1000}},
    ],
)
def test_what_it_does_not_say_is_not_guessed(config: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=r"may be of PufferLib 3\.0 or of 4\.0") as caught:
        translate(config, "pufferlib", "sb3")
    assert "vec.total_agents" in caught.value.fix


def test_replay_ratio_is_the_number_of_samples_drawn() -> None:
    library = DIALECTS["pufferlib4"]
    plan = predict(library, read(FOUR, library).recipe)
    assert (plan.rollout_size, plan.gradient_steps_per_update) == (262_144, 11)  # int(1.4 × 262,144 / 32,768)
    assert plan.num_updates == 10_000_000 // 262_144
    half = {"vec": {"total_agents": 4096}, "train": {"minibatch_size": 262_144, "replay_ratio": 0.5}}
    with pytest.raises(RequestError, match="fills no minibatch"):
        predict(library, read(half, library).recipe)
    with pytest.raises(RequestError, match="replay_ratio must be a positive number"):
        read({"vec": {"total_agents": 8}, "train": {"replay_ratio": -2.0}}, library)


def test_budgets_count_all_gpus() -> None:
    library = DIALECTS["pufferlib4"]
    config = {"vec.total_agents": 64, "train.horizon": 16, "train.minibatch_size": 256, "train.total_timesteps": 40_960}
    assert read(config, library).recipe.num_updates == 40
    assert read({**config, "train.gpus": 4}, library).recipe.num_updates == 10


@pytest.mark.parametrize(
    ("size", "words"), [(100, "must be divisible by horizon 64"), (1_048_576, "> total_agents 8 \\* horizon 64")]
)
def test_it_refuses_and_is_patched(size: int, words: str) -> None:
    config = {"vec": {"total_agents": 8}, "train": {"horizon": 64, "minibatch_size": size}}
    with pytest.raises(RequestError, match=f"AssertionError: minibatch_size {size}.*{words}"):
        translate(config, "pufferlib4", "sb3")
    assert fit_config(config, "pufferlib", verbose=False)["train"]["minibatch_size"] in (64, 128, 256)
