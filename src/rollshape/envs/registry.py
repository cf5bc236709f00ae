"""Environments by id: `backend:id`, or a bare id, which prefers a functional environment.

`gymnax:`, `tabular:`, `brax:` and `playground:` environments are functional, `gymnasium:` and `envpool:` ones run on
the host. `module:id` imports a module first, as in Gymnasium; what it registers here is functional. `python:`
environments are objects of the caller's program.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

from rollshape.envs.access import EnvAccess
from rollshape.envs.classic import Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum
from rollshape.envs.functional import FunctionalEnv
from rollshape.envs.guard import CallGuard
from rollshape.envs.modules import BACKENDS, load_module, split_module
from rollshape.envs.objects import PREFIX, find_object, is_functional, missing_object
from rollshape.envs.pools import make_host as make_host  # the other half of this interface
from rollshape.envs.tabular import delay_chain, frozen_lake
from rollshape.errors import RequestError, did_you_mean
from rollshape.formatting import short_repr
from rollshape.geometry.calls import check_arguments

Factory = Callable[..., FunctionalEnv]
CLASSIC: dict[str, Factory] = {
    "CartPole-v1": CartPole,
    "Pendulum-v1": Pendulum,
    "MountainCar-v0": MountainCar,
    "MountainCarContinuous-v0": MountainCarContinuous,
    "Acrobot-v1": Acrobot,
}
TABULAR: dict[str, Factory] = {
    "FrozenLake-v1": frozen_lake,
    "FrozenLake8x8-v1": lambda **options: frozen_lake("8x8", **options),
    "DelayChain-v0": delay_chain,
}
FUNCTIONAL = {**CLASSIC, **TABULAR}
LIBRARIES = {"gymnax": "gymnax_env", "brax": "brax_env", "playground": "brax_env"}  # backend → module with make_BACKEND
ID = re.compile(r"[A-Za-z0-9_.\-/]+")

_registered: dict[str, Any] = {}  # by `register`
_cache: dict[tuple[Factory, str], FunctionalEnv] = {}


@check_arguments
def register(id: str, functional_env: Any) -> None:
    """Register a functional environment, so that all functions and commands of this process find it by its id.

    A module that does so when it is imported can be named on the command line: `--env mymodule:MyEnv-v0`.

    Args:
        id: the new id, for example "MyEnv-v0". Registering an id again replaces the environment.
        functional_env: a FunctionalEnv, or its class or a function that returns one, which gets `env_kwargs`.
    """
    if not ID.fullmatch(id) or id in FUNCTIONAL:
        problem = "is the id of a built-in environment" if id in FUNCTIONAL else "is not a valid id"
        raise RequestError("environment", f"{id!r} {problem}.", "Use letters, digits, - and _, such as MyEnv-v0.")
    if not is_functional(functional_env) and (not callable(functional_env) or inspect.isclass(functional_env)):
        raise RequestError(
            "environment",
            f"{short_repr(functional_env)} is not a functional environment.",
            "Derive its class from rollshape.FunctionalEnv; environments of Gymnasium need no registration here.",
        )
    if isinstance(functional_env, FunctionalEnv):
        _check_hashable(id, functional_env)
    _registered[id] = functional_env


def kind(env_id: str, access: EnvAccess | None = None) -> Literal["functional", "host"]:
    """Return whether the environment of an id is functional or runs on the host.

    The module of `module:id` is imported, because it may register a functional environment; not if environments are to
    be isolated.
    """
    backend, colon, _ = env_id.partition(":")
    if colon and backend in (*LIBRARIES, "tabular"):
        return "functional"
    access = access or EnvAccess()
    module, _ = split_module(env_id)
    if module is not None and module not in sys.modules and not access.isolate:
        _import_guarded(module, env_id, access)
    return "functional" if env_id in FUNCTIONAL or _find_custom(env_id) is not None else "host"


def _import_guarded(module: str, env_id: str, access: EnvAccess) -> None:
    """Import a module within the time limit of a call into an environment."""
    from rollshape.envs.watcher import watch

    guard = CallGuard(env_id, access)
    watch(guard)
    with guard.doing("import"):
        load_module(module, env_id)


def _find_custom(env_id: str) -> Any:
    """Return a functional environment of the user's, or what creates it: registered, given or named by its module."""
    module, name = split_module(env_id)
    is_plain = env_id.partition(":")[0] not in BACKENDS
    if is_plain and name in _registered and (module is None or name not in FUNCTIONAL):
        return _registered[name]
    env = find_object(env_id)
    return env if is_functional(env) else None


def make(env_id: str, **options: Any) -> FunctionalEnv:
    """Create a functional environment; `options` are passed to its constructor.

    Equal arguments return the same object, so that compiled programs are shared between runs.
    """
    backend, colon, name = env_id.partition(":")
    if colon and backend in LIBRARIES:
        module = import_module(f"rollshape.envs.{LIBRARIES[backend]}")
        return _make_cached(getattr(module, f"make_{backend}"), name=name, **options)
    if (custom := _find_custom(env_id)) is not None:
        return _make_custom(env_id, custom, options)
    if env_id.startswith(PREFIX):
        raise missing_object(env_id)
    known = TABULAR if backend == "tabular" and colon else FUNCTIONAL
    name = name if backend == "tabular" and colon else env_id
    if name not in known:
        names = [*known, *_registered]
        raise RequestError(
            "environment",
            f"Unknown functional environment {env_id!r}.",
            f"{did_you_mean(name, names)}Available: {', '.join(names)}, and gymnax:ID, brax:ID, playground:ID.",
        )
    try:
        return _make_cached(known[name], **options)
    except TypeError as error:
        raise RequestError("environment", f"Invalid options for {env_id}: {error}.", "Check --env-kwargs.") from None


def _make_custom(env_id: str, custom: Any, options: dict[str, Any]) -> FunctionalEnv:
    if isinstance(custom, FunctionalEnv):
        if options:
            raise RequestError(
                "environment", f"{env_id} is an instance and takes no options.", "Register its class instead."
            )
        _check_hashable(env_id, custom)
        return custom
    try:
        env = _make_cached(custom, **options)
    except RequestError:
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise RequestError("environment", f"{env_id} cannot be created: {problem}.", "Check --env-kwargs.") from None
    if not isinstance(env, FunctionalEnv):
        raise RequestError(
            "environment", f"{env_id} created a {type(env).__name__}.", "Return a rollshape.FunctionalEnv."
        )
    _check_hashable(env_id, env)
    return env


def _check_hashable(env_id: str, env: FunctionalEnv) -> None:
    try:
        hash(env)
    except TypeError:
        raise RequestError(
            "environment",
            f"{env_id} is not hashable, but compiled programs are found by their environment.",
            "Use @dataclass(frozen=True) with fields that are hashable, or a plain class.",
        ) from None


def _make_cached(factory: Factory, **options: Any) -> FunctionalEnv:
    """Return the environment of a factory, created once per set of options; it has no state, so sharing is safe."""
    key = factory, repr(sorted(options.items()))
    if key not in _cache:
        _cache[key] = factory(**options)
    return _cache[key]
