"""Hostile values at every key of every dialect: a config is read, or refused with one message."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from hostile import ARRAYS, SCALARS, choose, raw_errors
from random_configs import plain_config, put
from rollshape.errors import RequestError
from rollshape.geometry.dialects import NAMES, fit_config, translate
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.registry import ALL_DIALECTS, LANGUAGE_DIALECTS
from rollshape.geometry.dialects.rrd import RrdDialect

ALL: dict[str, Dialect] = {**ALL_DIALECTS, "rrd": RrdDialect()}


def hostile_config(source: random.Random, dialect: Dialect) -> dict[str, Any]:
    config = plain_config(dialect)
    for key in source.sample(dialect.keys, source.choice((1, 1, 2, 3))):
        put(config, key.name, choose(source))
    if source.random() < 0.2:
        config[source.choice(("x", "x\ny", 3, 10**5000, None, (1,), b"n_envs", "n" * 5000))] = choose(source)
    return config


def hostile_call(source: random.Random) -> Callable[[], Any]:
    name = source.choice(list(ALL))
    config, num_envs = hostile_config(source, ALL[name]), source.choice((None, None, 1, 7, choose(source)))
    if source.random() < 0.5:
        return lambda: fit_config(config, name, num_envs, verbose=False)
    target = source.choice(NAMES)
    return lambda: json.dumps(translate(config, name, target, num_envs=num_envs).to_dict(), allow_nan=False)


def fuzz(count: int, seed: int) -> list[str]:
    source = random.Random(seed)
    return raw_errors([hostile_call(source) for _ in range(count)])


def test_no_config_is_a_raw_error() -> None:
    assert fuzz(1500, seed=0) == []


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_scalar_at_every_key(name: str) -> None:
    dialect = ALL[name]
    source = random.Random(name)
    target = name if name == "rrd" or name in LANGUAGE_DIALECTS else "sb3"
    calls: list[Callable[[], Any]] = []
    for key in dialect.keys:
        for value in source.sample((*SCALARS, *ARRAYS), 12):
            config = plain_config(dialect)
            put(config, key.name, value)
            calls.append(lambda config=config: translate(config, name, target))
    assert raw_errors(calls) == []


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("dopamine", {"update_period": 64, "ReplayBuffer": {"batch_size": "abc"}}, "ReplayBuffer.batch_size must be a"),
        ("dopamine", {"update_period": 64, "ReplayBuffer": {"batch_size": [[1]]}}, "ReplayBuffer.batch_size must be a"),
        ("sb3", {"n_envs": 10**3999, "n_steps": 8}, "n_envs must be at most .* an integer of 13,285 bits"),
        ("sb3", {"n_steps": float("inf")}, "n_steps must be a whole number, got inf"),
        (
            "isaaclab:rl_games",
            {"horizon_length": 8, "minibatch_size": 8, "num_actors": 0},
            "num_envs must be at least 1",
        ),
    ],
)
def test_messages(name: str, config: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        fit_config(config, name, verbose=False)


@pytest.mark.parametrize("rate", [10**400, float("nan"), -1, 1e300, "1e400"])
def test_a_rate_that_cannot_be_meant(rate: Any) -> None:
    with pytest.raises(RequestError, match="learning_rate must be a positive number"):
        translate({"n_envs": 2, "n_steps": 8, "learning_rate": rate}, "sb3", "cleanrl")


def test_large_budgets_are_not_factorized() -> None:
    budget = 9_007_199_254_740_881  # a prime: trial division would take seconds
    for target in ("stoix", "rejax", "tianshou", "dopamine"):
        config = {"num_envs": 1, "num_steps": 1, "num_minibatches": 1, "total_timesteps": budget}
        assert translate(config, "cleanrl", target).plan.num_updates == budget
