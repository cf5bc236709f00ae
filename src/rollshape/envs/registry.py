"""Environments by id: `backend:id`, or a bare id, which prefers a functional environment.

`gymnax:` and `tabular:` environments are functional, `gymnasium:` and `envpool:` ones run on the host; any other prefix
is a module to import, as in Gymnasium's `module:id`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from rollshape.envs.classic import Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum
from rollshape.envs.functional import FunctionalEnv
from rollshape.envs.pools import make_host as make_host  # the other half of this interface
from rollshape.envs.tabular import delay_chain, frozen_lake
from rollshape.errors import RequestError, did_you_mean

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


def kind(env_id: str) -> Literal["functional", "host"]:
    """Return whether the environment of an id is functional or runs on the host."""
    backend, colon, _ = env_id.partition(":")
    functional = backend in ("gymnax", "tabular") if colon else env_id in FUNCTIONAL
    return "functional" if functional else "host"


_cache: dict[tuple[Callable[..., FunctionalEnv], str], FunctionalEnv] = {}


def make(env_id: str, **options: Any) -> FunctionalEnv:
    """Create a functional environment; `options` are passed to its constructor.

    Equal arguments return the same object, so that compiled programs are shared between runs.
    """
    backend, colon, name = env_id.partition(":")
    if backend == "gymnax" and colon:
        from rollshape.envs.gymnax_env import make_gymnax

        return _make_cached(make_gymnax, name=name, **options)
    known = TABULAR if backend == "tabular" and colon else FUNCTIONAL
    name = name if backend == "tabular" and colon else env_id
    if name not in known:
        raise RequestError(
            "environment",
            f"Unknown functional environment {env_id!r}.",
            f"{did_you_mean(name, known)}Available: {', '.join(known)}, and gymnax:ID.",
        )
    try:
        return _make_cached(known[name], **options)
    except TypeError as error:
        raise RequestError("environment", f"Invalid options for {env_id}: {error}.", "Check --env-kwargs.") from None


def _make_cached(factory: Callable[..., FunctionalEnv], **options: Any) -> FunctionalEnv:
    """Return the environment of a factory, created once per set of options; it has no state, so sharing is safe."""
    key = factory, repr(sorted(options.items()))
    if key not in _cache:
        _cache[key] = factory(**options)
    return _cache[key]
