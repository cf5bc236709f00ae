"""RSL-RL does what Rollshape says that it does."""

import re
from collections import Counter

import pytest

pytest.importorskip("rsl_rl")

from peers.checks import Config, check_minibatches, check_settings, predicted, remainder
from peers.drivers import Counted, Pair
from peers.drivers.rsl_rl_driver import lost, train
from peers.shapes import UPDATES, Shape, dozen, recipe_of, sparse
from rollshape import Plan, RequestError

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

RAW = {"num_learning_epochs": 2, "max_iterations": 2}


def named_as_lost(plan: Plan) -> set[Pair]:
    """The (step, environment) pairs that the finding says are never trained on; none without a finding."""
    finding, pairs = remainder(plan), set()
    message = finding.message if finding else ""
    for step, first, last in re.findall(r"step (\d+) of environments (\d+)…(\d+)", message):
        pairs |= {(int(step), env) for env in range(int(first), int(last) + 1)}
    for first, last in re.findall(r"steps (\d+)…(\d+) of all environments", message):
        pairs |= {(step, env) for step in range(int(first), int(last) + 1) for env in range(plan.num_envs)}
    return pairs


def check_lost(counted: Counted, config: Config) -> None:
    """In every update the same pairs are lost, those that we name; all others are trained on once an epoch."""
    recipe, plan = recipe_of("rsl_rl", config), predicted("rsl_rl", config)
    foreseen = named_as_lost(plan)
    assert len(foreseen) == plan.dropped
    for trained in counted.trained:
        assert lost(trained, recipe.num_envs, recipe.num_steps) == foreseen
        assert set(Counter(trained).values()) == {recipe.num_epochs}


@pytest.mark.parametrize("shape", [*dozen("rsl_rl"), *sparse()], ids=str)
def test_trains_as_predicted_on_what_we_wrote(shape: Shape) -> None:
    translation = shape.translated("rsl_rl")
    counted = train(translation.config)
    check_minibatches(counted, "rsl_rl", translation.config)
    check_settings(counted, "rsl_rl", translation.config)
    check_lost(counted, translation.config)
    assert len(counted.steps) == translation.plan.num_updates == UPDATES


@pytest.mark.parametrize(
    ("num_envs", "num_steps", "count", "gone"),
    [
        (5, 3, 4, {(2, 2), (2, 3), (2, 4)}),
        (3, 5, 4, {(4, 0), (4, 1), (4, 2)}),
        (4, 4, 3, {(3, 3)}),
        (1, 11, 4, {(8, 0), (9, 0), (10, 0)}),
        (2, 7, 5, {(5, 0), (5, 1), (6, 0), (6, 1)}),
        (3, 13, 22, {(step, env) for step in range(8, 13) for env in range(3)} | {(7, 1), (7, 2)}),
    ],
)
def test_the_tail_that_we_name_is_never_trained_on(num_envs: int, num_steps: int, count: int, gone: set[Pair]) -> None:
    config = RAW | {"num_envs": num_envs, "num_steps_per_env": num_steps, "num_mini_batches": count}
    counted = train(config)
    assert lost(counted.trained[0], num_envs, num_steps) == gone
    check_minibatches(counted, "rsl_rl", config)
    check_lost(counted, config)


def test_an_adaptive_learning_rate_changes_no_count() -> None:
    config = RAW | {"num_envs": 4, "num_steps_per_env": 6, "num_mini_batches": 3, "desired_kl": 0.02}
    counted = train(config)
    assert counted.settings["adaptive_kl"] == 0.02
    check_minibatches(counted, "rsl_rl", config)
    check_settings(counted, "rsl_rl", config)


def test_more_minibatches_than_samples_are_all_empty() -> None:
    config = RAW | {"num_envs": 1, "num_steps_per_env": 3, "num_mini_batches": 5}
    assert train(config).minibatches == [[0] * 5 * 2] * 2
    with pytest.raises(RequestError, match="5 minibatches of a rollout of 3 samples would be empty"):
        predicted("rsl_rl", config)
