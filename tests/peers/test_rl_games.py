"""rl_games does what Rollshape says that it does."""

import copy
import random
from typing import Any

import pytest

pytest.importorskip("rl_games")

import rollshape
from peers.checks import Config, check_minibatches, check_refused, check_settings
from peers.drivers.rl_games_driver import agent_config, run, train
from peers.shapes import UPDATES, Shape, dozen, sparse
from rollshape import translate

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

HYPER = {
    "learning_rate": 1e-3,
    "gamma": 0.99,
    "tau": 0.95,
    "e_clip": 0.2,
    "entropy_coef": 0.0,
    "critic_coef": 1.0,
    "grad_norm": 0.5,
    "lr_schedule": "None",
}
RAW = HYPER | {"num_actors": 4, "horizon_length": 5, "mini_epochs": 2, "max_epochs": 2}  # a rollout of 20


@pytest.mark.parametrize("shape", [*dozen("rl_games"), *sparse()], ids=str)
def test_trains_as_predicted_on_what_we_wrote(shape: Shape) -> None:
    translation = shape.translated("rl_games")
    counted = train(translation.config)
    check_minibatches(counted, "rl_games", translation.config)
    check_settings(counted, "rl_games", translation.config)
    assert len(counted.steps) == translation.plan.num_updates == UPDATES


def test_an_adaptive_learning_rate_changes_no_count() -> None:
    source = {"num_envs": 4, "num_steps_per_env": 6, "num_mini_batches": 3, "max_iterations": 2, "desired_kl": 0.02}
    config = translate(source, "rsl_rl", "rl_games").config
    counted = train(config)
    assert counted.settings["adaptive_kl"] == 0.02
    check_minibatches(counted, "rl_games", config)
    check_settings(counted, "rl_games", config)


@pytest.mark.parametrize(
    "sizes",
    [
        {"minibatch_size": 7},
        {"minibatch_size": 40},
        {"minibatch_size_per_env": 3},
        {"num_actors": 3, "minibatch_size": 5},
        {"num_actors": 3, "minibatch_size": 5, "seq_length": 2},
        {"num_actors": 3, "minibatch_size": 4},
    ],
    ids=["7 of 20", "40 of 20", "3 of 5 for each env", "15 % seq 4", "15 % seq 2", "4 of 15, and 15 % seq 4"],
)
def test_what_does_not_divide_is_refused_in_these_words(sizes: Config) -> None:
    refusal = check_refused(train, "rl_games", RAW | sizes, ValueError)
    rule = refusal.real.split(". ")[0].rstrip(".")
    assert f"ValueError: {rule}" in refusal.foreseen


@pytest.mark.parametrize(
    ("sizes", "minibatches"),
    [
        ({"num_actors": 3, "minibatch_size": 5, "seq_length": 1}, [5] * 3),
        ({"minibatch_size": 2}, [2] * 10),
        ({"minibatch_size_per_env": 1}, [4] * 5),
        ({"minibatch_size": 10, "minibatch_size_per_env": 1}, [10] * 2),
    ],
    ids=["seq_length 1", "M below seq_length", "for each env", "minibatch_size wins"],
)
def test_what_divides_is_cut_as_predicted(sizes: Config, minibatches: list[int]) -> None:
    counted = train(RAW | sizes)
    assert counted.minibatches == [minibatches * 2] * 2
    check_minibatches(counted, "rl_games", RAW | sizes)


@pytest.mark.parametrize(
    ("budget", "updates"),
    [
        ({"max_frames": 40}, 2),
        ({"max_frames": 41}, 3),
        ({"max_epochs": 3, "max_frames": 20}, 1),
        ({"max_epochs": 1, "max_frames": 60}, 1),
        ({"max_epochs": -1, "max_frames": 21}, 2),
    ],
    ids=str,
)
def test_the_first_limit_ends_the_run(budget: Config, updates: int) -> None:
    config = {key: value for key, value in RAW.items() if key != "max_epochs"} | {"minibatch_size": 10} | budget
    counted = train(config)
    assert len(counted.steps) == updates
    check_minibatches(counted, "rl_games", config)


def illegal_sizes() -> list[Config]:
    """Sizes of agent files that rl_games refuses, small and large, by either of its rules."""
    chance = random.Random("fit")
    chosen = [
        {"num_actors": 3, "horizon_length": 5, "minibatch_size": 5},  # seq_length only
        {"num_actors": 30, "horizon_length": 35, "minibatch_size": 512},  # 1050: rollout/4 does not divide
        {"num_actors": 7, "horizon_length": 37, "minibatch_size": 64},  # 259 = 7 · 37
        {"num_actors": 6, "horizon_length": 10, "minibatch_size_per_env": 3},
    ]
    while len(chosen) < 10:
        sizes = {"num_actors": chance.randint(1, 32), "horizon_length": chance.randint(2, 32), "minibatch_size": 64}
        if sizes["num_actors"] * sizes["horizon_length"] % 64:
            chosen.append(sizes)
    return chosen


def named(sizes: Config) -> str:
    return ",".join(str(size) for size in sizes.values())


@pytest.mark.parametrize("sizes", illegal_sizes(), ids=named)
def test_fit_config_makes_a_refused_agent_file_train(sizes: dict[str, Any]) -> None:
    agent_cfg = agent_config(HYPER | {"mini_epochs": 2, "max_epochs": 1} | sizes)
    num_envs = sizes["num_actors"]
    with pytest.raises(ValueError, match="must be divisible by"):
        run(agent_cfg)
    untouched = copy.deepcopy(agent_cfg)
    fitted = rollshape.fit_config(agent_cfg, dialect="rl_games", num_envs=num_envs, verbose=False)
    counted = run(fitted)
    check_minibatches(counted, "rl_games", fitted["params"]["config"])
    assert sum(counted.minibatches[0]) == 2 * num_envs * sizes["horizon_length"]
    assert agent_cfg == untouched


def test_fit_config_takes_the_environments_that_there_are() -> None:
    """A file written for 16 actors, run with 6: the file's own 64 no longer divides."""
    agent_cfg = agent_config(
        RAW | {"num_actors": 16, "horizon_length": 16, "minibatch_size": 64, "mini_epochs": 1, "max_epochs": 1}
    )
    refused = copy.deepcopy(agent_cfg)
    refused["params"]["config"]["num_actors"] = 6
    with pytest.raises(ValueError, match=r"'batch_size' \(96\) must be divisible by 'minibatch_size' \(64\)"):
        run(refused)
    counted = run(rollshape.fit_config(agent_cfg, dialect="rl_games", num_envs=6, verbose=False))
    assert counted.minibatches == [[48, 48]]


def test_fit_config_leaves_a_legal_agent_file_alone() -> None:
    agent_cfg = agent_config(RAW | {"minibatch_size": 10})
    assert rollshape.fit_config(agent_cfg, dialect="rl_games", num_envs=4, verbose=False) == agent_cfg
