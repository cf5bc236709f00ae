"""Properties of an environment for the planner: spaces, episode length, and memory per environment."""

from __future__ import annotations

import contextlib
import gc
import math
import sys
import time
from typing import TYPE_CHECKING, Any

from rollshape.envs.access import EnvAccess
from rollshape.envs.spaces import Continuous, Discrete

if TYPE_CHECKING:
    from rollshape.envs.functional import FunctionalEnv
    from rollshape.envs.host import HostEnv

POOL, STEPS = 16, 4
SECONDS = 2.0
LIBRARY_BYTES = {  # measured; gymnax imports pandas and matplotlib
    "gymnax": 165_000_000, "envpool": 110_000_000, "brax": 270_000_000, "playground": 240_000_000,
}  # fmt: skip


def inspect_environment(env_id: str) -> dict[str, Any]:
    """Return the fields of a plan's Request that depend on the environment; its memory is measured."""
    from rollshape.envs.registry import kind, make

    if kind(env_id) == "functional":
        return functional_facts(make(env_id))
    with contextlib.redirect_stdout(sys.stderr):  # environments may print; stdout belongs to the command
        return host_facts(env_id, EnvAccess())


def functional_facts(env: FunctionalEnv) -> dict[str, Any]:
    """Return the Request fields of a functional environment; its memory is the size of its state."""
    import jax

    state, _ = jax.eval_shape(
        lambda: env.reset(jax.random.key(0))
    )  # abstract evaluation does not initialize JAX devices
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    return _space_fields(env) | {"env_bytes": size, "library_bytes": _library_bytes(env.name)}


def host_facts(env_id: str, access: EnvAccess | None = None, /, **options: Any) -> dict[str, Any]:
    """Return the Request fields of a host environment; its memory is the growth of the resident set size.

    Without `access` the calls have no time limit.
    """
    if access is not None and access.isolate:
        from rollshape.envs.isolated import inspect_isolated

        return inspect_isolated(env_id, options, access)
    import psutil

    from rollshape.envs.failures import creation_errors

    process = psutil.Process()
    with creation_errors(env_id):
        before = process.memory_info().rss
        pools = [_make_and_step(env_id, 1, access, options)]  # the first one also loads shared libraries
        library = max(_library_bytes(env_id), process.memory_info().rss - before)
        started = time.monotonic()
        pools.append(_make_and_step(env_id, 1, access, options))
        count = max(1, min(POOL, int(SECONDS / (time.monotonic() - started))))
        gc.collect()
        before = process.memory_info().rss
        pools.append(_make_and_step(env_id, count, access, options))
        growth = process.memory_info().rss - before
        for pool in pools:
            pool.close()
    measured = {"env_bytes": max(0, growth // count), "library_bytes": library}
    return _space_fields(pools[0]) | measured | {"host_envs": True}


def _library_bytes(env_id: str) -> int:
    """Return the memory of an environment's library: it cannot be measured where it is already imported."""
    return LIBRARY_BYTES.get(env_id.partition(":")[0], 0)


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


def _make_and_step(env_id: str, num_envs: int, access: EnvAccess | None, options: dict[str, Any]) -> HostEnv:
    import numpy as np

    from rollshape.envs.host import random_actions
    from rollshape.envs.pools import make_host, make_pool

    rng = np.random.default_rng(0)
    env = make_pool(env_id, num_envs, options) if access is None else make_host(env_id, num_envs, access, **options)
    env.reset(0)
    for _ in range(STEPS):
        env.step(env.clip_action(random_actions(env, rng)))
    return env
