"""What an environment is made of: spaces, episode length, and the memory that one of it takes."""

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
    """Fields of a plan's Request that the environment decides; its memory is measured on a small pool."""
    from rollshape.envs.registry import kind, make

    if kind(env_id) == "functional":
        return functional_facts(make(env_id))
    with contextlib.redirect_stdout(sys.stderr):  # an environment may print; stdout is the command's
        return host_facts(env_id)


def functional_facts(env: FunctionalEnv) -> dict[str, Any]:
    """Those of a functional environment, which weighs what its state does."""
    import jax

    state, _ = jax.eval_shape(lambda: env.reset(jax.random.key(0)))  # computes nothing: JAX's devices stay to be chosen
    weight = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    return _shown(env) | {"env_bytes": weight}


def host_facts(env_id: str, **options: Any) -> dict[str, Any]:
    """Those of a host environment: growth of the resident memory with a pool that was reset and stepped."""
    import psutil

    from rollshape.envs.host import making

    process = psutil.Process()
    with making(env_id):
        pools = [_stepped(env_id, 1, options)]  # the first one also loads what all share
        started = time.monotonic()
        pools.append(_stepped(env_id, 1, options))
        count = max(1, min(POOL, int(SECONDS / (time.monotonic() - started))))
        gc.collect()
        before = process.memory_info().rss
        pools.append(_stepped(env_id, count, options))
        grown = process.memory_info().rss - before
        for pool in pools:
            pool.close()
    return _shown(pools[0]) | {"env_bytes": max(0, grown // count), "host_envs": True}


def _shown(env: FunctionalEnv | HostEnv) -> dict[str, Any]:
    action = env.action
    outputs = (
        action.n
        if isinstance(action, Discrete)
        else action.dim
        if isinstance(action, Continuous)
        else sum(action.choices)
    )
    return {
        "obs_shape": env.observation.shape,
        "obs_dtype": env.observation.dtype,
        "action_kind": "continuous" if isinstance(action, Continuous) else "discrete",
        "action_dim": outputs,
        "episode_length": env.max_steps,
    }


def _stepped(env_id: str, num_envs: int, options: dict[str, Any]) -> HostEnv:
    import numpy as np

    from rollshape.envs.host import random_actions
    from rollshape.envs.registry import make_host

    env, rng = make_host(env_id, num_envs, **options), np.random.default_rng(0)
    env.reset(0)
    for _ in range(STEPS):
        env.step(env.bounded(random_actions(env, rng)))
    return env
