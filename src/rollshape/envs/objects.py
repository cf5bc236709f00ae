"""Environments given as Python objects: each gets an id, by which it is created like any other. Does not import JAX.

A class or function that can be imported has the id `module:Name`, so that a run directory says where it is. Any other
object, such as a class of a notebook or an instance, has the id `python:Name`: another process cannot create it, and
whoever opens such a run must give the environment again.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable
from typing import Any

from rollshape.envs.modules import split_module
from rollshape.errors import RequestError, did_you_mean
from rollshape.formatting import short_repr

PREFIX = "python:"
GIVE_AGAIN = "Give the environment again, from Python: env=… takes the class, function or instance."
Factory = Callable[..., Any]

_given: dict[str, Any] = {}  # by id


def env_id(env: Any, known_id: str | None = None) -> str:
    """Return the id of an environment; an object can be created by this id from now on.

    Args:
        env: an id, a class of Gymnasium or of functional environments, a function that creates an environment, or an
            instance, which is copied for every one of the N environments.
        known_id: id of the run that the environment is given again for; it must be the object's.
    """
    if isinstance(env, str):
        identity = env
    else:
        _check_object(env)
        identity = _importable_id(env) or f"{PREFIX}{_name(env)}"
        _given[identity] = env
    if known_id is not None and identity != known_id:
        raise RequestError(
            "environment", f"The run was trained on {known_id}, not on {identity}.", "Give the same environment again."
        )
    return identity


def find_object(identity: str) -> Any:
    """Return the object of an id: one that was given, or the attribute `Name` of `module:Name`; None if there is none.

    An id that the module registers with Gymnasium has priority over an attribute. The module must be imported.
    """
    if identity in _given:
        return _given[identity]
    module, name = split_module(identity)
    if module is None or module not in sys.modules or not all(part.isidentifier() for part in name.split(".")):
        return None
    found_object: Any = sys.modules[module]
    for part in name.split("."):
        found_object = getattr(found_object, part, None)
    return found_object if callable(found_object) or is_functional(found_object) else None


def find_factory(identity: str) -> Factory | None:
    """Return the function that creates an environment of Gymnasium from an object's id; None for any other id."""
    if identity.startswith(PREFIX) and identity not in _given:
        raise missing_object(identity)
    found_object = find_object(identity)
    if found_object is None or is_functional(found_object):
        return None
    if identity not in _given and _is_registered(identity):
        return None
    if _is_env(found_object):
        return lambda **options: _copy(found_object, identity, options)
    return lambda **options: _create(found_object, identity, options)


def provide(identity: str, factory: Any) -> None:
    """Let an id stand for an object, in a process that received both from its parent."""
    _given[identity] = factory


def given_object(identity: str) -> Any:
    """Return the object that was given for an id, to send it to another process; None if it was not."""
    return _given.get(identity)


def missing_object(identity: str) -> RequestError:
    """Return the error for the id of an object that this process does not have."""
    name = identity.removeprefix(PREFIX)
    near = did_you_mean(identity, _given)
    return RequestError(
        "environment",
        f"{identity} is an environment that only Python code can provide: {name} was defined in a script, a notebook "
        "or another function, or given as an instance.",
        f"{near}{GIVE_AGAIN} If {name} is in a module, use module:{name} instead.",
    )


def is_functional(env: Any) -> bool:
    """Return whether an object is a functional environment, or a class of them."""
    module = sys.modules.get("rollshape.envs.functional")  # if it is not imported, no object can be one
    if module is None:
        return False
    return isinstance(env, module.FunctionalEnv) or (inspect.isclass(env) and issubclass(env, module.FunctionalEnv))


def describe_object(identity: str) -> str | None:
    """Return how a run whose environment is an object can be opened again, for run.json; None for other ids."""
    if not identity.startswith(PREFIX):
        return None
    env = _given[identity]
    named = env if hasattr(env, "__qualname__") else type(env)
    file = getattr(sys.modules.get(named.__module__), "__file__", None)
    place = f"{named.__module__}.{named.__qualname__}" + (f" ({file})" if file else "")
    return f"{place}; to resume or evaluate the run, give it again: rollshape.train(env=…, out=…, resume=True)"


def _check_object(env: Any) -> None:
    if is_functional(env) or _is_env(env):
        return
    kind = type(env).__module__.partition(".")[0]
    if not callable(env) or (kind == "gymnasium" and "vector" in type(env).__module__):
        raise RequestError(
            "environment",
            f"env must be an id, an environment, a class or a function that creates one, got {short_repr(env)}.",
            "A vector environment is not needed: give a single one, of which N are created.",
        )


def _is_env(env: Any) -> bool:
    gymnasium = sys.modules.get("gymnasium")
    return gymnasium is not None and isinstance(env, gymnasium.Env)


def _is_registered(identity: str) -> bool:
    gymnasium = sys.modules.get("gymnasium")
    return gymnasium is not None and split_module(identity)[1] in gymnasium.registry


def _name(env: Any) -> str:
    named = env if hasattr(env, "__qualname__") else type(env)
    return str(named.__qualname__).rpartition(".<locals>.")[2].replace("<lambda>", "lambda")


def _importable_id(env: Any) -> str | None:
    """Return `module:Name` of a class or function that another process can import; None if it cannot."""
    module, name = getattr(env, "__module__", None), getattr(env, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    identity = f"{module}:{name}"
    return identity if "<" not in name and find_object(identity) is env else None


def _copy(env: Any, identity: str, options: dict[str, Any]) -> Any:
    if options:
        raise RequestError("environment", f"{identity} is an instance and takes no options.", "Give its class instead.")
    try:
        return copy.deepcopy(env)
    except Exception as error:
        raise RequestError(
            "environment",
            f"{identity} is an instance that cannot be copied ({type(error).__name__}: {error}).",
            "Give its class, or a function that creates one.",
        ) from None


def _create(factory: Factory, identity: str, options: dict[str, Any]) -> Any:
    import gymnasium

    env = factory(**options)
    if isinstance(env, gymnasium.Env):
        return env
    fix = "Return an environment of Gymnasium."
    if is_functional(env):
        fix = "Give the functional environment itself or its class, or register it: rollshape.register(id, env)."
    raise RequestError("environment", f"{identity} created a {type(env).__name__}.", fix)
