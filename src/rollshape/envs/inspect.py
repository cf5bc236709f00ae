"""Properties of an environment for the planner: spaces, episode length, and memory per environment."""

from __future__ import annotations

import contextlib
import gc
import math
import sys
import time
from typing import TYPE_CHECKING, Any

from rollshape.envs.spaces import Continuous, Discrete

if TYPE_CHECKING:
    from rollshape.envs.functional import FunctionalEnv
    from rollshape.envs.host import HostEnv

POOL, STEPS = 16, 4
SECONDS = 2.0


def inspect_environment(env_id: str) -> dict[str, Any]:
    """Return the fields of a plan's Request that depend on the environment; its memory is measured."""
    from rollshape.envs.registry import kind, make

    if kind(env_id) == "functional":
        return functional_facts(make(env_id))
    with contextlib.redirect_stdout(sys.stderr):  # environments may print; stdout belongs to the command
        return host_facts(env_id)


def functional_facts(env: FunctionalEnv) -> dict[str, Any]:
    """Return the Request fields of a functional environment; its memory is the size of its state."""
    import jax

    state, _ = jax.eval_shape(
        lambda: env.reset(jax.random.key(0))
    )  # abstract evaluation does not initialize JAX devices
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    return _space_fields(env) | {"env_bytes": size}


def host_facts(env_id: str, **options: Any) -> dict[str, Any]:
    """Return the Request fields of a host environment; its memory is the growth of the resident set size."""
    import psutil

    from rollshape.envs.host import creation_errors

    process = psutil.Process()
    with creation_errors(env_id):
        pools = [_make_and_step(env_id, 1, options)]  # the first one also loads shared libraries
        started = time.monotonic()
        pools.append(_make_and_step(env_id, 1, options))
        count = max(1, min(POOL, int(SECONDS / (time.monotonic() - started))))
        gc.collect()
        before = process.memory_info().rss
        pools.append(_make_and_step(env_id, count, options))
        growth = process.memory_info().rss - before
        for pool in pools:
            pool.close()
    return _space_fields(pools[0]) | {"env_bytes": max(0, growth // count), "host_envs": True}


def _space_fields(env: FunctionalEnv | HostEnv) -> dict[str, Any]:
    action = env.action
    if isinstance(action, Discrete):
        outputs = action.n
    else:
        outputs = action.dim if isinstance(action, Continuous) else sum(action.choices)
    return {
        "obs_shape": env.observation.shape,
        "obs_dtype": env.observation.dtype,
        "action_kind": "continuous" if isinstance(action, Continuous) else "discrete",
        "action_dim": outputs,
        "episode_length": env.max_steps,
    }


def _make_and_step(env_id: str, num_envs: int, options: dict[str, Any]) -> HostEnv:
    import numpy as np

    from rollshape.envs.host import random_actions
    from rollshape.envs.registry import make_host

    env, rng = make_host(env_id, num_envs, **options), np.random.default_rng(0)
    env.reset(0)
    for _ in range(STEPS):
        env.step(env.clip_action(random_actions(env, rng)))
    return env
