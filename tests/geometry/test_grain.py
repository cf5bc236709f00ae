"""Processes, agents and sequences in plans: every request is planned, or answered with alternatives that are valid."""

import random
from typing import Any

import pytest

from rollshape import Plan, RequestError, plan
from rollshape.geometry.grain import Grain, nearest_multiple

SIZES: dict[str, tuple[float, range]] = {  # how often a size is requested, and its values
    "num_envs": (0.6, range(1, 300)),
    "num_steps": (0.6, range(1, 130)),
    "rollout_size": (0.2, range(1, 9000)),
    "minibatch_size": (0.4, range(1, 2000)),
    "num_minibatches": (0.3, range(1, 40)),
    "world_size": (0.6, range(2, 9)),
    "num_agents": (0.4, range(2, 9)),
    "seq_length": (0.4, range(1, 33)),
    "num_envs_per_rank": (0.15, range(1, 64)),
    "minibatch_size_per_rank": (0.15, range(1, 256)),
}


def random_request(chance: random.Random) -> dict[str, Any]:
    request: dict[str, Any] = {
        name: chance.choice(of) for name, (often, of) in SIZES.items() if chance.random() < often
    }
    return request | {"recurrent": chance.random() < 0.5, "on_remainder": chance.choice(["error", "warn", "fix"])}


def check(result: Plan, request: dict[str, Any]) -> None:
    """Whole environments on each rank, whole sequences in each minibatch, and every sample accounted for."""
    assert result.rollout_size == result.num_envs * result.num_steps * result.num_agents
    assert result.num_envs % result.world_size == 0
    assert result.num_steps % (result.seq_length or 1) == 0
    assert result.minibatch_size % (result.world_size * (result.seq_length or 1)) == 0
    assert sum(result.split.sizes()) + result.dropped == result.rollout_size
    assert result.dropped == 0 or request["on_remainder"] == "warn"


def test_every_request_is_planned_or_answered() -> None:
    chance, planned = random.Random("grain"), 0
    for _ in range(3000):
        request = random_request(chance)
        if not any(request.get(name) for name in ("world_size", "num_agents", "seq_length", "recurrent")):
            continue
        try:
            check(plan(**request), request)
            planned += 1
        except RequestError as error:
            for alternative in error.alternatives:
                check(plan(**{**request, **alternative}), request)
    assert planned > 500


def test_requested_sizes_are_kept() -> None:
    result = plan(num_envs=64, num_steps=32, minibatch_size=512, world_size=4, seq_length=16, num_agents=2)
    assert (result.num_envs, result.num_steps, result.minibatch_size, result.num_minibatches) == (64, 32, 512, 8)


@pytest.mark.parametrize("world", [1, 3, 5, 6, 7])
def test_free_sizes_are_chosen_to_fit(world: int) -> None:
    for length in (1, 3, 10, 48):
        result = plan(world_size=world, seq_length=length, num_minibatches=5)
        assert result.num_envs % world == 0
        assert result.num_steps % length == 0
        assert result.num_minibatches == 5


def test_the_granularity_of_a_plan() -> None:
    assert Grain(4, 16, 3).minibatch_unit(32) == 64
    assert Grain(4, 1, 3, whole_envs=True).minibatch_unit(32) == 128
    assert Grain(4, 1, 1).envs_step(96, 32) == 12
    assert Grain(1, 16, 1).steps_step(24, 2) == 48
    assert [nearest_multiple(size, 8) for size in (1, 11, 12, 13)] == [8, 8, 8, 16]
