"""Random configs of every dialect: plausible sizes, missing keys, nested, dotted or flat."""

from __future__ import annotations

import random
from typing import Any, Literal

from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.keys import EXTRA

Style = Literal["nested", "dotted", "flat"]
SIZES = (
    "num_envs", "workers", "envs_per_worker", "num_steps", "rollout_size", "minibatch_size", "num_minibatches",
    "trajectories", "minibatch_per_env",
)  # fmt: skip
USUAL = (16, 25, 32, 60, 64, 100, 128, 256, 1000, 1024, 4096, 8192)
PLAIN = {
    "num_envs": 8, "num_steps": 16, "rollout_size": 128, "minibatch_size": 32, "num_minibatches": 4, "num_epochs": 3,
    "workers": 2, "envs_per_worker": 4, "trajectories": 16,
}  # fmt: skip

REQUIRED = ("actor.model.num_action_chunks",)  # extras without which a config is refused


def put(config: dict[str, Any], name: str, value: Any, style: Style = "nested") -> None:
    """Set a key at its place."""
    *sections, leaf = name.split(".")
    if style == "dotted" or (style == "flat" and leaf not in config):
        config[name if style == "dotted" else leaf] = value
        return
    for section in sections:
        if not isinstance(config.get(section), dict):
            config[section] = {}
        config = config[section]
    config[leaf] = value


def plain_config(dialect: Dialect) -> dict[str, Any]:
    """Return a config in which every key has a usual value."""
    config: dict[str, Any] = {}
    for key in dialect.keys:
        value = PLAIN.get(key.concept, key.default)
        if value is not None:
            put(config, key.name, value)
    return config


def random_size(source: random.Random) -> int:
    return source.choice((source.randint(1, 12), source.choice(USUAL), source.randint(1, 3000)))


def random_config(source: random.Random, dialect: Dialect) -> dict[str, Any]:
    """Return a config with random sizes, most of which fit badly; a quarter of the keys is missing."""
    config: dict[str, Any] = {}
    style: Style = source.choice(("nested", "nested", "dotted", "flat"))
    for key in dialect.keys:
        is_extra = key.concept == EXTRA and (
            key.whole or key.default == "auto" or (isinstance(key.default, int) and not isinstance(key.default, bool))
        )
        if key.concept == "num_epochs" or key.name in REQUIRED:
            put(config, key.name, source.randint(1, 4), style)
        elif (key.concept in SIZES and source.random() < 0.75) or (is_extra and source.random() < 0.3):
            put(config, key.name, random_size(source), style)
        elif key.concept == "num_envs" and source.random() < 0.2:
            put(config, key.name, -1, style)  # the script sets it
    return config
