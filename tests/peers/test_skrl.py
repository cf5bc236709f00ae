"""skrl does what Rollshape says that it does."""

import pytest

pytest.importorskip("skrl")

from peers.checks import check_minibatches, check_settings, predicted, remainder
from peers.drivers.skrl_driver import train
from peers.shapes import UPDATES, Shape, dozen, sparse
from rollshape import RequestError, translate

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

RAW = {"num_envs": 3, "rollouts": 5, "learning_epochs": 2, "timesteps": 10}  # a rollout of 15


@pytest.mark.parametrize("shape", [*dozen("skrl"), *sparse()], ids=str)
def test_trains_as_predicted_on_what_we_wrote(shape: Shape) -> None:
    translation = shape.translated("skrl")
    counted = train(translation.config)
    check_minibatches(counted, "skrl", translation.config)
    check_settings(counted, "skrl", translation.config)
    assert len(counted.steps) == translation.plan.num_updates == UPDATES


def test_an_adaptive_learning_rate_changes_no_count() -> None:
    source = {"num_envs": 4, "num_steps_per_env": 6, "num_mini_batches": 3, "max_iterations": 2, "desired_kl": 0.02}
    config = translate(source, "rsl_rl", "skrl").config
    counted = train(config)
    assert counted.settings["adaptive_kl"] == 0.02
    check_minibatches(counted, "skrl", config)
    check_settings(counted, "skrl", config)


@pytest.mark.parametrize(
    ("count", "minibatches"),
    [(4, [4, 4, 4, 3]), (2, [8, 7]), (7, [3, 2, 2, 2, 2, 2, 2])],
)
def test_a_remainder_is_spread_over_the_first_minibatches(count: int, minibatches: list[int]) -> None:
    config = RAW | {"mini_batches": count}
    counted = train(config)
    assert counted.minibatches == [minibatches * 2] * 2
    assert remainder(predicted("skrl", config)).numbers == {
        "remainder": 15 % count,
        "dropped": 0,
        "last_minibatch_size": minibatches[-1],
    }
    check_minibatches(counted, "skrl", config)


def test_the_plan_itself_tells_the_sizes() -> None:
    config = RAW | {"mini_batches": 4}
    assert predicted("skrl", config).split.sizes() * 2 == train(config).minibatches[0]


@pytest.mark.parametrize(("timesteps", "updates"), [(5, 1), (9, 1), (14, 2), (15, 3)])
def test_a_budget_is_vector_steps_rounded_down(timesteps: int, updates: int) -> None:
    config = RAW | {"mini_batches": 3, "timesteps": timesteps}
    counted = train(config)
    assert len(counted.steps) == updates
    check_minibatches(counted, "skrl", config)


def test_a_budget_below_one_rollout_trains_nothing() -> None:
    config = RAW | {"mini_batches": 3, "timesteps": 4}
    assert train(config).steps == []
    with pytest.raises(RequestError, match="allows no update") as foreseen:
        predicted("skrl", config)
    assert foreseen.value.rule == "zero-updates"


def test_more_minibatches_than_samples_leave_some_empty() -> None:
    config = RAW | {"num_envs": 1, "rollouts": 3, "timesteps": 3, "mini_batches": 5}
    assert train(config).minibatches == [[1, 1, 1, 0, 0] * 2]
    with pytest.raises(RequestError, match="5 minibatches of a rollout of 3 samples would be empty"):
        predicted("skrl", config)
