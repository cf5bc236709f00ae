"""Creating Gymnasium environments by id, class or function: one of them, or a vector of N."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from rollshape.envs.failures import creation_errors
from rollshape.envs.gymnasium_env import GymnasiumEnv
from rollshape.envs.gymnasium_recording import RecordingEnv
from rollshape.envs.modules import load_module, split_module
from rollshape.envs.objects import find_factory, find_object, given_object, is_functional, provide
from rollshape.errors import RequestError, did_you_mean
from rollshape.processes import safe_child_path

VectorizationMode = Literal["sync", "async", "vector_entry_point"]


def make_one(name: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """Create one environment; unknown ids, missing extras and invalid options are RequestErrors."""
    _import_module(name)
    with warnings.catch_warnings(), creation_errors(name):
        warnings.simplefilter("ignore")  # using an old version is the user's choice
        factory = find_factory(name)
        try:
            if factory is not None:
                env: gymnasium.Env[Any, Any] = factory(**options)
                return env
            return gymnasium.make(name, disable_env_checker=True, **options)
        except (gymnasium.error.Error, ModuleNotFoundError) as error:
            raise _creation_error(name, error) from None
        except TypeError as error:
            if not options:
                raise
            raise RequestError("environment", f"Invalid options for {name}: {error}", "Check --env-kwargs.") from None


def make_gymnasium(
    name: str,
    num_envs: int,
    vectorization_mode: VectorizationMode | None = None,
    on_created: Callable[[], None] = lambda: None,
    **options: Any,
) -> GymnasiumEnv:
    """Create `num_envs` environments of a Gymnasium id: in this process, in subprocesses, or by its vector entry point.

    Options are passed to the constructor. `on_created` is called after every environment that is created here.
    """
    registered_spec = _find_spec(name)
    if vectorization_mode is None:  # some ids only have a vector entry point
        only_vector = registered_spec is not None and registered_spec.entry_point is None
        vectorization_mode = "vector_entry_point" if only_vector else "sync"
    if vectorization_mode == "vector_entry_point":
        vector = _make_vector(name, num_envs, **options)
        return GymnasiumEnv(vector, name, vector.spec.max_episode_steps if vector.spec else None)
    if vectorization_mode not in ("sync", "async"):
        raise RequestError(
            "choice",
            f"Unknown vectorization_mode {vectorization_mode!r}.",
            "Use sync, async or vector_entry_point.",
        )
    first = make_one(name, **options)
    max_steps = _time_limit(first)
    first.close()
    given = given_object(name)
    functions = [partial(_make_recording_env, name, registered_spec, given, i, options) for i in range(num_envs)]

    def create(function: Callable[[], RecordingEnv]) -> RecordingEnv:
        env = function()
        on_created()
        return env

    with creation_errors(name), safe_child_path():
        vector = (
            SyncVectorEnv([partial(create, function) for function in functions], autoreset_mode=AutoresetMode.SAME_STEP)
            if vectorization_mode == "sync"
            else AsyncVectorEnv(functions, context="spawn", autoreset_mode=AutoresetMode.SAME_STEP)
        )
    return GymnasiumEnv(vector, name, max_steps)


def _time_limit(env: gymnasium.Env[Any, Any]) -> int | None:
    """Return the time limit of an environment's spec, or of its wrapper if it has no spec."""
    if env.spec is not None:
        return env.spec.max_episode_steps
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            return int(env._max_episode_steps)
        env = env.env
    return None


def _make_recording_env(
    name: str, spec: EnvSpec | None, given: Any, index: int, options: dict[str, Any]
) -> RecordingEnv:
    """Create one of the N environments; a subprocess may have to register its id or its object first."""
    if given is not None:
        provide(name, given)
    if spec is not None and name not in gymnasium.registry:
        gymnasium.registry[name] = spec
    return RecordingEnv(make_one(name, **options), index)


def _make_vector(name: str, num_envs: int, **options: Any) -> VectorEnv[Any, Any, Any]:
    with warnings.catch_warnings(), creation_errors(name):
        warnings.simplefilter("ignore")
        try:
            return gymnasium.make_vec(name, num_envs, "vector_entry_point", **options)
        except (gymnasium.error.Error, ModuleNotFoundError) as error:
            raise _creation_error(name, error) from None


def _find_spec(name: str) -> EnvSpec | None:
    """Return the registered spec of an id; `module:id` imports the module first, which registers it."""
    _import_module(name)
    if is_functional(find_object(name)):
        raise RequestError(
            "environment",
            f"{name} is a functional environment, which does not run on the host.",
            "Leave out --isolate-env.",
        )
    return gymnasium.registry.get(split_module(name)[1])


def _import_module(name: str) -> None:
    module, _ = split_module(name)
    if module is not None:
        load_module(module, name)


def _creation_error(name: str, error: Exception) -> RequestError:
    from rollshape.envs.registry import FUNCTIONAL

    text = str(error).split("\n")[0]
    if isinstance(error, (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError)) and name in gymnasium.registry:
        package = f"gymnasium[{group}]" if (group := _dependency_group(name)) else "the package that it names"
        return RequestError("environment", f"Cannot create {name}: {text}", f"Install {package}{_in_envpool(name)}.")
    hint = did_you_mean(name, [*gymnasium.registry, *FUNCTIONAL])
    return RequestError("environment", f"Cannot create {name}: {text}", f"{hint}Check the id, or install its extra.")


def _dependency_group(name: str) -> str:
    """Return Gymnasium's extra for an environment of its own, such as `mujoco`; the entry point contains its name."""
    parts = str(gymnasium.registry[name].entry_point).partition(":")[0].split(".")
    groups = {"mujoco": "mujoco", "box2d": "box2d", "toy_text": "toy-text", "classic_control": "classic-control"}
    return next((groups[part] for part in parts if parts[0] == "gymnasium" and part in groups), "")


def _in_envpool(name: str) -> str:
    """Return a hint if EnvPool, which needs no further packages, is installed and has an environment of this id."""
    try:
        import envpool
    except ImportError:
        return ""
    return f", or use envpool:{name}" if name in envpool.list_all_envs() else ""
