"""Environments of Brax and MuJoCo Playground, which have one interface. Imported only when needed: it takes seconds.

Both libraries leave time limits, action repeat and resets to wrappers, which are not used here: `functional` applies
the time limit, so that truncation and termination are distinguished, and resets with a new random state.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.envs.functional import FunctionalEnv, State, StepResult
from rollshape.envs.spaces import Continuous, Observation
from rollshape.errors import RequestError, did_you_mean

EPISODE_LENGTH = 1000  # of all environments of Brax, in its own training
_filters = threading.RLock()


class BraxEnv(FunctionalEnv):
    """An environment with `reset(rng)` and `step(state, action)` whose states are pytrees; actions are in [−1, 1]."""

    def __init__(self, name: str, env: Any, max_steps: int) -> None:
        self.name, self._env, self.max_steps = name, env, max_steps
        self.action = Continuous(int(env.action_size), -1.0, 1.0)
        state = jax.eval_shape(lambda: env.reset(jax.random.PRNGKey(0)))  # within `_quiet`
        self._key = _observation_key(name, state.obs)
        observation = self._observe(state)
        self.observation = Observation(tuple(observation.shape), "float32")

    def reset(self, key: Array) -> tuple[State, Array]:
        # Some environments keep the key in their state: a plain array can be stored and selected like any other.
        with _no_warnings():
            state = self._env.reset(jax.random.bits(key, (2,), jnp.uint32))
        return state, jnp.asarray(self._observe(state), jnp.float32)

    def step(self, key: Array, state: State, action: Array) -> StepResult:  # noqa: ARG002 (random states carry a key)
        with _no_warnings():
            following = self._env.step(
                jax.tree.map(lambda leaf: leaf, state), action
            )  # it may write to a state's dicts
        following = jax.tree.map(lambda old, new: jnp.asarray(new, jnp.asarray(old).dtype), state, following)
        return StepResult(
            following,
            jnp.asarray(self._observe(following), jnp.float32),
            jnp.asarray(following.reward, jnp.float32),
            jnp.asarray(following.done, bool),
        )

    def _observe(self, state: Any) -> Any:
        return state.obs if self._key is None else state.obs[self._key]


def _observation_key(name: str, observation: Any) -> str | None:
    """Return the only key of a dict of observations; None for an array."""
    if not isinstance(observation, Mapping):
        return None
    if list(observation) == ["state"]:
        return "state"
    raise RequestError(
        "environment",
        f"{name} has the observations {', '.join(observation)}; a policy here has one array.",
        "Use an environment whose observation is an array, or a dict with the single key state.",
    )


def make_brax(name: str, **options: Any) -> BraxEnv:
    """Create an environment of Brax; `max_steps` is its time limit, other options are passed to its constructor."""
    max_steps = _max_steps(f"brax:{name}", options.pop("max_steps", EPISODE_LENGTH))
    with _quiet(), _creating(f"brax:{name}", "brax"):
        from brax import envs

        if name not in envs._envs:
            raise _unknown(f"brax:{name}", name, list(envs._envs))
        return BraxEnv(f"brax:{name}", envs.get_environment(name, **options), max_steps)


def make_playground(name: str, **options: Any) -> BraxEnv:
    """Create an environment of MuJoCo Playground; options override its config, `max_steps` its `episode_length`.

    The physics is MJX in JAX unless `impl` says otherwise: the default of the library, Warp, is for NVIDIA GPUs.
    """
    max_steps = options.pop("max_steps", None)
    with _quiet(), _creating(f"playground:{name}", "playground"):
        from mujoco_playground import registry

        if name not in registry.ALL_ENVS:
            raise _unknown(f"playground:{name}", name, registry.ALL_ENVS)
        config = registry.get_default_config(name)
        if config.get("action_repeat", 1) != 1:
            raise RequestError(
                "environment",
                f"playground:{name} repeats each action {config.action_repeat} times, which is not supported.",
                "Use another environment.",
            )
        if "impl" in config:
            options.setdefault("impl", "jax")
        env = registry.load(name, config_overrides=options or None)
        limit = max_steps if max_steps is not None else options.get("episode_length", config.episode_length)
        return BraxEnv(f"playground:{name}", env, _max_steps(f"playground:{name}", limit))


def _max_steps(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RequestError("environment", f"max_steps of {name} is {value!r}.", "Give a whole number of at least 1.")
    return value


def _unknown(env_id: str, name: str, known: Any) -> RequestError:
    return RequestError(
        "environment", f"Unknown environment {env_id!r}.", f"{did_you_mean(name, known)}Available: {', '.join(known)}."
    )


@contextlib.contextmanager
def _creating(env_id: str, package: str) -> Iterator[None]:
    """Turn errors of the libraries into RequestErrors; a missing package names its extra."""
    try:
        yield
    except RequestError:
        raise
    except ImportError as error:
        raise RequestError(
            "environment", f"{package} cannot be imported: {error}.", f"pip install 'rollshape[{package}]'."
        ) from None
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise RequestError("environment", f"{env_id} cannot be created: {text}.", "Check --env-kwargs.") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide what the libraries print, log and warn of while they are imported: it concerns parts of their own."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with _no_warnings(), contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        logging.disable(level)


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    """Ignore warnings; one thread at a time, because the filters are global and a run traces in two threads."""
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
