"""What every library's tests compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from peers.drivers import Counted
from peers.shapes import recipe_of
from rollshape import Plan, RequestError
from rollshape.geometry.dialects import DIALECTS
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.rules import Finding

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Refusal:
    """The words of the library and ours."""

    real: str
    foreseen: str


def predicted(dialect: str, config: Config) -> Plan:
    """The plan that Rollshape foresees for a config in a library's own words."""
    return predict(DIALECTS[dialect], recipe_of(dialect, config))


def remainder(plan: Plan) -> Finding | None:
    """What Rollshape says of the samples that fill no minibatch, if there are any."""
    return next((finding for finding in plan.findings if finding.rule == "remainder"), None)


def check_minibatches(counted: Counted, dialect: str, config: Config) -> None:
    """Every minibatch of every epoch of every update has the size foreseen, and each is one optimiser step."""
    recipe, plan = recipe_of(dialect, config), predicted(dialect, config)
    epoch = DIALECTS[dialect].epoch(recipe).sizes()
    assert counted.minibatches == [epoch * recipe.num_epochs] * plan.num_updates
    assert counted.steps == [plan.gradient_steps_per_update] * plan.num_updates
    assert counted.optimizer_steps == plan.gradient_steps


def check_settings(counted: Counted, dialect: str, config: Config) -> None:
    """The hyperparameters of the library's objects are those that Rollshape reads in the config."""
    assert counted.settings == pytest.approx(dict(recipe_of(dialect, config).hyper))


def check_refused(train: Callable[[Config], Counted], dialect: str, config: Config, error: type[Exception]) -> Refusal:
    """The library raises that error, and Rollshape foresees that it does; what either says."""
    with pytest.raises(error) as real:
        train(config)
    with pytest.raises(RequestError, match=f"{dialect} rejects .*: {error.__name__}: ") as foreseen:
        predicted(dialect, config)
    return Refusal(str(real.value), foreseen.value.message)
