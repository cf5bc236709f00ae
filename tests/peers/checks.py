"""What every library's tests compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from peers.drivers import Counted
from peers.shapes import recipe_of
from rollshape.geometry.dialects import DIALECTS
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.plan import Plan


def predicted(dialect: str, config: Mapping[str, Any]) -> Plan:
    """The plan that Rollshape foresees for a config in a library's own words."""
    return predict(DIALECTS[dialect], recipe_of(dialect, config))


def check_minibatches(counted: Counted, dialect: str, config: Mapping[str, Any]) -> None:
    """Every minibatch of every epoch of every update has the size foreseen, and each is one optimiser step."""
    recipe, plan = recipe_of(dialect, config), predicted(dialect, config)
    epoch = DIALECTS[dialect].epoch(recipe).sizes()
    assert counted.minibatches == [epoch * recipe.num_epochs] * plan.num_updates
    assert counted.steps == [plan.gradient_steps_per_update] * plan.num_updates
    assert counted.optimizer_steps == plan.gradient_steps


def check_settings(counted: Counted, dialect: str, config: Mapping[str, Any]) -> None:
    """The hyperparameters of the library's objects are those that Rollshape reads in the config."""
    assert counted.settings == pytest.approx(dict(recipe_of(dialect, config).hyper))
