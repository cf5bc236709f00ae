"""Checks of functional environments: declared shapes and dtypes, purity, jit, vmap, finite values, ends of episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.envs.check import NUM_ENVS, EnvCheck, EnvReport, check_ends, default_steps, new_report
from rollshape.envs.failures import format_exception
from rollshape.envs.functional import Episode, FunctionalEnv, Transition, start, step_and_reset
from rollshape.envs.registry import make
from rollshape.envs.spaces import Continuous, Discrete

TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}  # compiled programs round differently
EQUAL = {"rtol": 0.0, "atol": 0.0}


class Failed(Exception):
    """A check failed, for this reason."""


def check_functional(identity: str, options: dict[str, Any], steps: int | None, seed: int) -> EnvReport:
    """Check a functional environment; if reset or step do not work at all, the remaining checks are left out."""
    env = make(identity, **options)
    report = new_report(identity, "functional", env.observation, env.action, env.max_steps)
    keys = jax.random.split(jax.random.key(seed), 3)
    for name, check in _basic_checks(env, keys):
        outcome = _run_check(name, check)
        report.checks.append(outcome)
        if outcome.status == "fail" and name in ("reset", "step", "state", "jit"):
            return report
    count = steps or default_steps(env.horizon)
    try:
        transitions, first = _play(env, count, keys[2])
    except Exception as error:
        report.checks.append(EnvCheck("episodes", "fail", format_exception(error)[:300]))
        return report
    report.checks.append(_run_check("finite", lambda: _check_finite(transitions, count)))
    report.checks.extend(_check_episodes(env, transitions, first, count))
    return report


def _run_check(name: str, check: Callable[[], str]) -> EnvCheck:
    try:
        return EnvCheck(name, "pass", check())
    except Failed as error:
        return EnvCheck(name, "fail", str(error))
    except Exception as error:  # of the environment, or of tracing it
        return EnvCheck(name, "fail", format_exception(error)[:300])


def _basic_checks(env: FunctionalEnv, keys: Array) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "reset", lambda: _check_reset(env, keys[0])
    yield "step", lambda: _check_step(env, keys)
    yield "state", lambda: _check_state(env, keys)
    yield "pure", lambda: _check_pure(env, keys)
    yield "jit", lambda: _check_jit(env, keys)
    yield "vmap", lambda: _check_vmap(env, keys)


def _check_reset(env: FunctionalEnv, key: Array) -> str:
    _, observation = env.reset(key)
    _check_array("the observation of reset", observation, env.observation.shape, env.observation.dtype)
    return f"observation {env.observation.shape} {env.observation.dtype}, as declared"


def _check_step(env: FunctionalEnv, keys: Array) -> str:
    result = _step(env, keys)
    _check_array("the observation of step", result[1], env.observation.shape, env.observation.dtype)
    _check_array("the reward", result[2], (), "float32")
    _check_array("terminated", result[3], (), "bool")
    return "observation as declared, reward a float32, terminated a bool"


def _check_array(what: str, value: Any, shape: tuple[int, ...], dtype: str) -> None:
    got = jnp.shape(value), str(jnp.result_type(value))
    if got != (shape, dtype):
        raise Failed(f"{what} has shape {got[0]} and dtype {got[1]}, but must have {shape} and {dtype}")


def _check_state(env: FunctionalEnv, keys: Array) -> str:
    before, after = env.reset(keys[0])[0], _step(env, keys)[0]
    structures: list[Any] = [jax.tree.structure(state) for state in (before, after)]
    if structures[0] != structures[1]:
        raise Failed("the state of step has another structure than that of reset")
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        pair = [(jnp.shape(leaf), str(jnp.result_type(leaf))) for leaf in (old, new)]
        if pair[0] != pair[1]:
            raise Failed(f"a part of the state is {pair[0]} after reset and {pair[1]} after step; both must be equal")
    return "reset and step return states of one structure"


def _check_pure(env: FunctionalEnv, keys: Array) -> str:
    """Call reset and step twice outside of jit: attributes that change, or other sources of randomness, show here."""
    state, _ = env.reset(keys[0])
    before = jax.tree.map(np.array, jax.tree.leaves(state))
    first, second = (env.step(keys[1], state, random_action(env, keys[2])) for _ in range(2))
    if not _is_close(before, jax.tree.leaves(state), EQUAL):
        raise Failed("step changes the state that it is given; it must return a new one")
    again = env.reset(keys[0])
    if not _is_close(env.reset(keys[0]), again, EQUAL):
        raise Failed("two calls of reset with one key differ: use the key for all randomness, and no attributes")
    if not _is_close(first, second, EQUAL):
        raise Failed("two calls of step with equal arguments differ: use the key for all randomness, and no attributes")
    return "equal arguments give equal results, and inputs are unchanged"


def _check_jit(env: FunctionalEnv, keys: Array) -> str:
    if not _is_close(jax.jit(partial(_step, env))(keys), _step(env, keys), TOLERANCE):
        raise Failed("compiled by jax.jit, step gives another result")
    return "the compiled step gives the same result"


def _check_vmap(env: FunctionalEnv, keys: Array) -> str:
    many = jax.random.split(keys[0], 2)
    batches = jnp.stack([jnp.stack([key, keys[1], keys[2]]) for key in many])
    together = jax.jit(jax.vmap(partial(_step, env)))(batches)
    single = [_step(env, batch) for batch in batches]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *single)
    if not _is_close(together, stacked, TOLERANCE):
        raise Failed("vectorized by jax.vmap, step gives another result")
    return "the vectorized step gives the same results"


def _step(env: FunctionalEnv, keys: Array) -> Any:
    """Reset with the first key, and take one random step with the others."""
    state, _ = env.reset(keys[0])
    return env.step(keys[1], state, random_action(env, keys[2]))


def _is_close(one: Any, other: Any, tolerance: dict[str, float]) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.allclose(_plain(a), _plain(b), **tolerance, equal_nan=True) for a, b in pairs)


def _plain(leaf: Any) -> Any:
    is_key = isinstance(leaf, Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf, np.float64)


def random_action(env: FunctionalEnv, key: Array) -> Array:
    """Return a random action, uniform within the bounds, or in [−1, 1] if there are none."""
    action = env.action
    if isinstance(action, Discrete):
        return jax.random.randint(key, (), 0, action.n)
    if isinstance(action, Continuous):
        low, high = (bound if np.isfinite(bound) else side for bound, side in ((action.low, -1.0), (action.high, 1.0)))
        return jax.random.uniform(key, (action.dim,), minval=low, maxval=high)
    return jax.random.randint(key, (len(action.choices),), 0, jnp.asarray(action.choices))


def _play(env: FunctionalEnv, steps: int, key: Array) -> tuple[Transition, Array]:
    """Return the transitions [steps, NUM_ENVS] of random actions, and the first observations of two resets."""

    def advance(episodes: Episode, key: Array) -> tuple[Episode, Transition]:
        act, move = jax.random.split(key)
        actions = jax.vmap(partial(random_action, env))(jax.random.split(act, NUM_ENVS))
        return jax.vmap(partial(step_and_reset, env))(jax.random.split(move, NUM_ENVS), episodes, actions)

    @jax.jit
    def play(key: Array) -> tuple[Transition, Array]:
        first, rest = jax.random.split(key)
        episodes = jax.vmap(partial(start, env))(jax.random.split(first, NUM_ENVS))
        return jax.lax.scan(advance, episodes, jax.random.split(rest, steps))[1], episodes.observation

    transitions, first = play(key)
    return jax.tree.map(np.asarray, transitions), first


def _check_finite(transitions: Transition, steps: int) -> str:
    for what, values in (("observation", transitions.final_observation), ("reward", transitions.reward)):
        finite = np.isfinite(np.asarray(values, np.float64)).reshape(len(values), -1).all(1)
        if not finite.all():
            raise Failed(f"the {what} is not finite at step {int(np.argmin(finite)) + 1} of random actions")
    return f"observations and rewards of {steps:,} steps in {NUM_ENVS} environments"


def _check_episodes(env: FunctionalEnv, transitions: Transition, first: Array, steps: int) -> Iterator[EnvCheck]:
    ended = transitions.terminated | transitions.truncated
    yield from check_ends(
        transitions.episode_length[ended].tolist(), transitions.truncated[ended].tolist(), env.max_steps, steps
    )
    final = transitions.final_observation[transitions.terminated]
    is_fixed = bool((first == first[:1]).all())
    if is_fixed and len(final) and bool((final == np.asarray(first[0])).all()):
        message = (
            "step returns the initial observation where an episode terminates: it seems to reset by itself, but must "
            "return the final observation"
        )
        yield EnvCheck("reset at the end", "fail", message)
