"""Stable-Baselines3 does what Rollshape says that it does."""

import pytest

pytest.importorskip("stable_baselines3")

from peers.checks import check_minibatches, check_refused, check_settings, predicted, remainder
from peers.drivers.sb3_driver import train
from peers.shapes import UPDATES, Shape, dozen, sparse

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

RAW = {"n_envs": 3, "n_steps": 5, "n_epochs": 2, "n_timesteps": 30}  # a rollout of 15


@pytest.mark.parametrize("shape", [*dozen("sb3"), *sparse()], ids=str)
def test_trains_as_predicted_on_what_we_wrote(shape: Shape) -> None:
    translation = shape.translated("sb3")
    counted = train(translation.config)
    check_minibatches(counted, "sb3", translation.config)
    check_settings(counted, "sb3", translation.config)
    assert len(counted.steps) == translation.plan.num_updates == UPDATES


def test_a_remainder_is_a_short_last_minibatch() -> None:
    config = RAW | {"batch_size": 4}
    with pytest.warns(UserWarning, match="truncated mini-batch of size 3"):
        counted = train(config)
    assert counted.minibatches == [[4, 4, 4, 3] * 2] * 2
    assert remainder(predicted("sb3", config)).numbers["last_minibatch_size"] == 3
    check_minibatches(counted, "sb3", config)


def test_a_last_minibatch_of_one_sample_is_trained() -> None:
    config = RAW | {"batch_size": 7}
    counted = train(config)
    assert counted.minibatches[0] == [7, 7, 1] * 2
    check_minibatches(counted, "sb3", config)


def test_a_minibatch_larger_than_the_rollout_is_the_rollout() -> None:
    config = RAW | {"batch_size": 100}
    counted = train(config)
    assert counted.minibatches == [[15] * 2] * 2
    check_minibatches(counted, "sb3", config)


@pytest.mark.parametrize(("budget", "updates"), [(1, 1), (15, 1), (16, 2), (31, 3)])
def test_a_budget_is_rounded_up(budget: int, updates: int) -> None:
    config = RAW | {"batch_size": 5, "n_timesteps": budget}
    counted = train(config)
    assert len(counted.steps) == updates
    check_minibatches(counted, "sb3", config)


@pytest.mark.parametrize(
    "sizes",
    [{"batch_size": 1}, {"n_envs": 1, "n_steps": 1, "batch_size": 2}],
    ids=["minibatch of 1", "rollout of 1"],
)
def test_single_samples_are_refused(sizes: dict[str, int]) -> None:
    refusal = check_refused(train, "sb3", RAW | sizes, AssertionError)
    key, rule = refusal.real.split(".")[0].split(" must ")
    assert key in refusal.foreseen
    assert f"must {rule}" in refusal.foreseen
