"""What an environment is made of: spaces, episode length, and the memory that one of it takes."""

from __future__ import annotations

import contextlib
import gc
import math
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

from rollshape.errors import RequestError

if TYPE_CHECKING:
    from rollshape.envs.functional import FunctionalEnv

POOL = 16
SECONDS = 2.0


def inspect_environment(env_id: str) -> dict[str, Any]:
    """Fields of a plan's Request that the environment decides; its memory is measured on a small pool."""
    backend, _, name = env_id.partition(":")
    if backend == "envpool":
        raise RequestError(
            "environment",
            "EnvPool's environments cannot be inspected yet.",
            "Give --obs-shape, --obs-dtype, --action-dim and --action-kind instead.",
        )
    if backend != "gymnasium":
        from rollshape.envs.registry import FUNCTIONAL, make

        if backend in ("gymnax", "tabular") or env_id in FUNCTIONAL:
            return functional_facts(make(env_id))
    name = name if backend == "gymnasium" else env_id
    with contextlib.redirect_stdout(sys.stderr):  # an environment may print; stdout is the command's
        try:
            first = _make(name)
            facts = _spaces(first, env_id) | {
                "episode_length": first.spec.max_episode_steps if first.spec else None,
                "env_bytes": _bytes_per_environment(name),
                "host_envs": True,
            }
            first.close()
        except RequestError:
            raise
        except Exception as error:  # an environment is the user's code and may raise anything
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise RequestError("environment", f"{env_id} fails: {text}", "Mend the environment.") from None
    return facts


def functional_facts(env: FunctionalEnv) -> dict[str, Any]:
    """The same of a functional environment, which weighs what its state does."""
    import jax

    from rollshape.envs.spaces import Continuous, Discrete

    state, _ = jax.eval_shape(env.reset, jax.random.key(0))
    action = env.action
    size = (
        action.n
        if isinstance(action, Discrete)
        else action.dim
        if isinstance(action, Continuous)
        else len(action.choices)
    )
    return {
        "obs_shape": env.observation.shape,
        "obs_dtype": env.observation.dtype,
        "action_kind": "continuous" if isinstance(action, Continuous) else "discrete",
        "action_dim": size,
        "episode_length": env.max_steps,
        "env_bytes": sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)),
    }


def _make(name: str) -> Any:
    import gymnasium

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old versions of an environment are the user's choice
            env = gymnasium.make(name)
            env.reset(seed=0)
        return env
    except gymnasium.error.Error as error:
        text = str(error).split("\n")[0]
        raise RequestError(
            "environment", f"Cannot make {name}: {text}", "Check the id, or install its extra."
        ) from None


def _spaces(env: Any, env_id: str) -> dict[str, Any]:
    from gymnasium import spaces
    from gymnasium.spaces.utils import flatdim

    observation, action = env.observation_space, env.action_space
    if isinstance(observation, spaces.Box):
        shape, dtype = observation.shape or (1,), str(observation.dtype)
    else:
        try:
            shape, dtype = (flatdim(observation),), "float32"
        except (NotImplementedError, ValueError):
            raise RequestError(
                "environment",
                f"{env_id} has an observation space without a fixed size: {type(observation).__name__}.",
                "Wrap it, or give --obs-shape.",
            ) from None
    if isinstance(action, spaces.Box):
        return {
            "obs_shape": shape,
            "obs_dtype": dtype,
            "action_kind": "continuous",
            "action_dim": math.prod(action.shape),
        }
    return {"obs_shape": shape, "obs_dtype": dtype, "action_kind": "discrete", "action_dim": flatdim(action)}


def _bytes_per_environment(name: str) -> int:
    """Growth of the process's resident memory for each environment of a pool that was reset and stepped."""
    import psutil

    process = psutil.Process()
    pool = [_stepped(name)]  # the first one also loads what all share
    gc.collect()
    before, started = process.memory_info().rss, time.monotonic()
    while len(pool) <= POOL and time.monotonic() - started < SECONDS:
        pool.append(_stepped(name))
    grown = process.memory_info().rss - before
    count = len(pool) - 1
    for env in pool:
        env.close()
    return max(0, grown // count) if count else 0


def _stepped(name: str) -> Any:
    env = _make(name)
    env.action_space.seed(0)
    for _ in range(4):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            break
    return env
