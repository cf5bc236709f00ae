"""Environments by id: `backend:id`, or a bare id, which is a functional environment's if there is one.

`gymnax:` and `tabular:` are functional, `gymnasium:` and `envpool:` run on the host; any other prefix is Gymnasium's
own `module:id`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from rollshape.envs.classic import Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum
from rollshape.envs.functional import FunctionalEnv
from rollshape.envs.tabular import delay_chain, frozen_lake
from rollshape.errors import RequestError, did_you_mean

if TYPE_CHECKING:
    from rollshape.envs.host import HostEnv

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
    """Whether an id is that of a pure function or of something that runs on the host."""
    backend, colon, _ = env_id.partition(":")
    functional = backend in ("gymnax", "tabular") if colon else env_id in FUNCTIONAL
    return "functional" if functional else "host"


def make_host(env_id: str, num_envs: int, **options: Any) -> HostEnv:
    """`num_envs` host environments of an id; `options` go to their constructor."""
    backend, _, name = env_id.partition(":")
    if backend == "envpool":
        from rollshape.envs.envpool_env import make_envpool

        return make_envpool(name, num_envs, **options)
    from rollshape.envs.gymnasium_env import make_gymnasium

    return make_gymnasium(name if backend == "gymnasium" else env_id, num_envs, **options)


_made: dict[tuple[Callable[..., FunctionalEnv], str], FunctionalEnv] = {}


def make(env_id: str, **options: Any) -> FunctionalEnv:
    """The functional environment of an id; `options` go to its constructor.

    The same again is the same object, for programs are compiled for an environment and serve all runs with it.
    """
    backend, colon, name = env_id.partition(":")
    if backend == "gymnax" and colon:
        from rollshape.envs.gymnax_env import make_gymnax

        return _once(make_gymnax, name=name, **options)
    known = TABULAR if backend == "tabular" and colon else FUNCTIONAL
    name = name if backend == "tabular" and colon else env_id
    if name not in known:
        raise RequestError(
            "environment",
            f"There is no functional environment {env_id!r}.",
            f"{did_you_mean(name, known)}Known: {', '.join(known)}, and gymnax:ID.",
        )
    try:
        return _once(known[name], **options)
    except TypeError as error:
        raise RequestError(
            "environment", f"{env_id} does not take these options: {error}.", "Check --env-kwargs."
        ) from None


def _once(factory: Callable[..., FunctionalEnv], **options: Any) -> FunctionalEnv:
    """What the factory makes: a pure function, so nobody can tell whether it is shared."""
    key = factory, repr(sorted(options.items()))
    if key not in _made:
        _made[key] = factory(**options)
    return _made[key]
