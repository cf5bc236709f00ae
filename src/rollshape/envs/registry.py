"""Environments by id: `backend:id`, or a bare id of a functional environment."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from rollshape.envs.classic import Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum
from rollshape.envs.functional import FunctionalEnv
from rollshape.envs.tabular import delay_chain, frozen_lake
from rollshape.errors import RequestError

CLASSIC: dict[str, Callable[..., FunctionalEnv]] = {
    "CartPole-v1": CartPole,
    "Pendulum-v1": Pendulum,
    "MountainCar-v0": MountainCar,
    "MountainCarContinuous-v0": MountainCarContinuous,
    "Acrobot-v1": Acrobot,
}
TABULAR: dict[str, Callable[..., FunctionalEnv]] = {
    "FrozenLake-v1": frozen_lake,
    "FrozenLake8x8-v1": lambda **options: frozen_lake("8x8", **options),
    "DelayChain-v0": delay_chain,
}
FUNCTIONAL = {**CLASSIC, **TABULAR}


def make(env_id: str, **options: Any) -> FunctionalEnv:
    """The functional environment of an id; `options` go to its constructor."""
    backend, colon, name = env_id.partition(":")
    if backend == "gymnax" and colon:
        from rollshape.envs.gymnax_env import make_gymnax

        return make_gymnax(name, **options)
    known = TABULAR if backend == "tabular" and colon else FUNCTIONAL
    name = name if backend == "tabular" and colon else env_id
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise RequestError(
            "environment",
            f"There is no functional environment {env_id!r}.",
            f"{hint}Known: {', '.join(known)}, and gymnax:ID.",
        )
    try:
        return known[name](**options)
    except TypeError as error:
        raise RequestError(
            "environment", f"{env_id} does not take these options: {error}.", "Check --env-kwargs."
        ) from None
