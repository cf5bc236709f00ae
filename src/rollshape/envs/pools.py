"""Pools of host environments by id. This module does not import JAX: it also runs in the process of isolated ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rollshape.envs.access import EnvAccess
from rollshape.envs.guard import CallGuard
from rollshape.envs.host import HostEnv


def make_host(env_id: str, num_envs: int, access: EnvAccess | None = None, /, **options: Any) -> HostEnv:
    """Create `num_envs` host environments; `options` are passed to their constructor."""
    access = access or EnvAccess()
    if access.isolate:
        from rollshape.envs.isolated import IsolatedEnv

        return IsolatedEnv(env_id, num_envs, options, access)
    from rollshape.envs.watcher import watch

    guard = CallGuard(env_id, access)
    watch(guard)
    with guard.doing("construction"):
        pool = make_pool(env_id, num_envs, options, guard.beat)
    guard.attach(pool)
    return pool


def make_pool(
    env_id: str, num_envs: int, options: Mapping[str, Any], on_created: Callable[[], None] = lambda: None
) -> HostEnv:
    """Create a pool in this process without a time limit; call `on_created` after every environment."""
    backend, _, name = env_id.partition(":")
    if backend == "envpool":
        from rollshape.envs.envpool_env import make_envpool

        return make_envpool(name, num_envs, **options)
    from rollshape.envs.gymnasium_make import make_gymnasium

    return make_gymnasium(name if backend == "gymnasium" else env_id, num_envs, on_created=on_created, **options)
