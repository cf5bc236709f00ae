"""From a spec to what trains it: the plan, the driver, and the state of a run that exists."""

from __future__ import annotations

import math
import os
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax

from rollshape.algorithms.parallel import reserve_devices
from rollshape.algorithms.registry import new_algorithm
from rollshape.envs.access import EnvAccess
from rollshape.envs.episodic import EpisodicEnv, EpisodicHost
from rollshape.envs.inspect import functional_facts, host_facts
from rollshape.envs.objects import env_id
from rollshape.envs.registry import kind, make, make_host
from rollshape.envs.trust import check_module
from rollshape.errors import RequestError
from rollshape.geometry.algorithms import RULES
from rollshape.geometry.plan import Plan
from rollshape.training import checkpoint
from rollshape.training.compiled_driver import CompiledDriver
from rollshape.training.driver import Driver, RunState
from rollshape.training.host_driver import HostDriver
from rollshape.training.rundir import RunDirectory
from rollshape.training.spec import Spec

INTERVALS = 100  # per run, by default


def plan_run(spec: Spec, access: EnvAccess | None = None) -> Plan:
    """Return the plan of a spec, with the memory that its environment takes."""
    options = spec.env_kwargs or {}
    reserve_devices(_num_devices(spec))
    access = access or EnvAccess()
    if kind(spec.env, access) == "host":
        return spec.plan(**host_facts(spec.env, access, **options))
    return spec.plan(**functional_facts(make(spec.env, **options)))


def _num_devices(spec: Spec) -> int:
    return spec.num_shards if isinstance(spec.num_shards, int) else 2


def check_run(spec: Spec, access: EnvAccess) -> Plan:
    """Return the plan of a spec; raise the RequestError that its driver would raise, without creating the driver."""
    plan, options = plan_run(spec, access), spec.env_kwargs or {}
    if kind(spec.env, access) == "host":
        with closing(make_host(spec.env, 1, access, **options)) as host:
            new_algorithm(spec, plan, host.observation, host.action)
    else:
        env = make(spec.env, **options)
        new_algorithm(spec, plan, env.observation, env.action)
    return plan


def new_driver(
    spec: Spec, plan: Plan, interval: int = 1, network: Any = None, access: EnvAccess | None = None
) -> Driver:
    """Return what trains the spec, by the kind of its environment."""
    options = spec.env_kwargs or {}
    is_episodic = spec.episodic_reward or RULES[spec.algo].uses_subsequences
    access = access or EnvAccess()
    if kind(spec.env, access) == "host":
        if jax.process_count() > 1:
            raise RequestError(
                "processes",
                f"{spec.env} steps on the host, and only functional environments can be divided over processes.",
                "Train it in one process.",
            )
        pool = make_host(spec.env, plan.num_envs, access, **options)
        return HostDriver(spec, plan, EpisodicHost(pool) if is_episodic else pool, interval, network, access)
    env = make(spec.env, **options)
    return CompiledDriver(spec, plan, EpisodicEnv(env) if is_episodic else env, interval, network)


def log_interval(spec: Spec, plan: Plan) -> int:
    """Return the updates per interval: about a hundred intervals; no longer than from one score to the next."""
    if spec.log_every is not None:
        return spec.log_every
    every = max(1, math.ceil((plan.num_updates or 1) / INTERVALS))
    return every if spec.eval_every is None else min(every, max(1, spec.eval_every // plan.rollout_size))


def trusted_spec(directory: RunDirectory, trust: bool, env: Any = None) -> Spec:
    """Return the spec of a run, or a RequestError if opening it would execute a module that is not installed.

    `env` is the run's environment, if it is an object that only the caller can provide.
    """
    spec = directory.spec()
    if env is not None:
        env_id(env, spec.env)
    elif not trust:
        check_module(spec.env, str(directory.path))
    return spec


class OpenedRun(NamedTuple):
    """A run that exists: its driver, and its state after an update."""

    driver: Driver
    state: RunState


def open_run(
    path: Path,
    update: int | None = None,
    network: Any = None,
    *,
    trust: bool = False,
    access: EnvAccess | None = None,
    env: Any = None,
) -> OpenedRun:
    """Open a run at a checkpoint (the latest by default), to score or measure it.

    A run that was trained with a network or an environment object of the caller's needs the same again. A run whose
    environment is in a module that is not installed is opened only with `trust`, because this executes the module.
    """
    directory = RunDirectory(path)
    spec = trusted_spec(directory, trust, env)
    description = directory.read().get("network")
    if description is not None and network is None:
        raise RequestError(
            "network",
            f"{path} was trained with a custom network ({description}), which only Python code can provide.",
            "Use the Python API and pass network=… as it was passed to rollshape.train.",
        )
    stored = checkpoint.find(directory.checkpoints, update)
    reserve_devices(_num_devices(spec))
    driver = new_driver(spec, directory.plan(), network=network, access=access)
    return OpenedRun(driver, checkpoint.load(stored, driver.template()).state)


def describe_network(network: Any) -> str | None:
    """Return the name of a custom network's class or factory; None for the built-in network."""
    if network is None:
        return None
    named = type(network) if isinstance(network, eqx.Module) else network
    return f"{getattr(named, '__module__', '?')}.{getattr(named, '__qualname__', type(named).__qualname__)}"


def use_compilation_cache() -> None:
    """Keep compiled programs on disk, so that the next run of the same shape starts at once."""
    config: Any = jax.config
    if config.jax_compilation_cache_dir is None:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        config.update("jax_compilation_cache_dir", str(home / "rollshape" / "xla"))
        config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
