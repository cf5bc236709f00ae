"""Checks of host environments: seeds, spaces, finite values, resets, ends of episodes, and whether a run can resume."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from rollshape.envs.access import EnvAccess
from rollshape.envs.check import NUM_ENVS, EnvCheck, EnvReport, check_ends, default_steps, new_report
from rollshape.envs.failures import EnvironmentFailure
from rollshape.envs.host import HostEnv, HostStep, Values, random_actions
from rollshape.envs.pools import make_host

SEED_STEPS = 50  # that are compared


class Played(NamedTuple):
    """The vector steps of random actions, the observations before them, and the lengths of ended episodes."""

    first: Values
    steps: list[HostStep]
    lengths: list[int]
    truncated: list[bool]
    seconds: float
    failure: str = ""


def check_host(identity: str, options: dict[str, Any], steps: int | None, seed: int, access: EnvAccess) -> EnvReport:
    """Check N environments of an id; a failure of the environment is a failed check."""
    with closing(make_host(identity, NUM_ENVS, access, **options)) as pool:
        report = new_report(identity, "host", pool.observation, pool.action, pool.max_steps)
        count = steps or default_steps(pool.horizon)
        played = _play(pool, count, seed)
        report.checks.append(_check_values(pool, played, count))
        if played.failure:
            return report
        report.checks.append(_check_resets(played))
        report.checks.extend(check_ends(played.lengths, played.truncated, pool.max_steps, count))
        with closing(make_host(identity, NUM_ENVS, access, **options)) as other:
            report.checks.append(_check_determinism(played, _play(other, count, seed)))
            report.checks.append(_check_seeds(played, other, seed))
            report.checks.append(_check_resume(pool, other))
        report.checks.extend(_check_space(pool, played))
        speed = NUM_ENVS * len(played.steps) / played.seconds
        report.checks.append(EnvCheck("speed", "pass", f"{speed:,.0f} steps/s in {NUM_ENVS} environments"))
    return report


def _play(pool: HostEnv, count: int, seed: int, action_seed: int = 0) -> Played:
    rng = np.random.default_rng(action_seed)
    results: list[HostStep] = []
    lengths: list[int] = []
    truncated: list[bool] = []
    began = time.perf_counter()
    first = np.zeros(0)
    try:
        first = pool.reset(seed).copy()
        for _ in range(count):
            before = pool.elapsed
            result = pool.step(pool.clip_action(random_actions(pool, rng)))
            ended = (result.terminated | result.truncated) & result.valid
            lengths += (before[ended] + 1).tolist()
            truncated += result.truncated[ended].tolist()
            results.append(copy.deepcopy(result))  # a backend may write to its arrays
    except EnvironmentFailure as error:
        return Played(first, results, lengths, truncated, time.perf_counter() - began, error.message)
    return Played(first, results, lengths, truncated, time.perf_counter() - began)


def _check_values(pool: HostEnv, played: Played, count: int) -> EnvCheck:
    if played.failure:
        return EnvCheck("values", "fail", played.failure)
    dtype = pool.observation.dtype
    return EnvCheck(
        "values",
        "pass",
        f"finite observations ({dtype}) of the space's shape, finite rewards, in {count:,} vector steps",
    )


def _check_resets(played: Played) -> EnvCheck:
    """Check that the observation that an episode ends with is not replaced by that of the reset."""
    ended = [(step, step.terminated | step.truncated) for step in played.steps]
    pairs = [(step.final_observation[mask], step.observation[mask]) for step, mask in ended if mask.any()]
    if not pairs:
        return EnvCheck("autoreset", "warn", "no episode ended, so resets are not checked; use more steps")
    has_reset_steps = any(not step.valid.all() for step in played.steps)
    if has_reset_steps:
        return EnvCheck("autoreset", "pass", "in the step after the end; these steps are not trained on")
    final, following = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    if np.array_equal(final, following):
        message = (
            "the final observation of every ended episode equals that of the reset: it is lost, or always the same"
        )
        return EnvCheck("autoreset", "warn", message)
    return EnvCheck("autoreset", "pass", "in the step of the end; the final observation is kept")


def _check_determinism(one: Played, other: Played) -> EnvCheck:
    names = ("observation", "reward", "terminated", "truncated")
    if not np.array_equal(one.first, other.first):
        return EnvCheck("determinism", "fail", "two resets with one seed give different observations")
    for number, (a, b) in enumerate(zip(one.steps, other.steps, strict=False), 1):
        for name in names:
            if not np.array_equal(getattr(a, name), getattr(b, name)):
                message = f"with one seed and the same actions, {name} differs at step {number:,}: runs do not repeat"
                return EnvCheck("determinism", "fail", message)
    return EnvCheck("determinism", "pass", "one seed and the same actions give the same episodes")


def _check_seeds(played: Played, pool: HostEnv, seed: int) -> EnvCheck:
    other = _play(pool, min(len(played.steps), SEED_STEPS), seed + 1)
    pairs = zip(played.steps, other.steps, strict=False)
    if np.array_equal(played.first, other.first) and all(
        np.array_equal(a.observation, b.observation) for a, b in pairs
    ):
        message = f"another seed gives the same {len(other.steps)} steps: all environments are copies of one episode"
        return EnvCheck("seeds", "warn", message)
    return EnvCheck("seeds", "pass", "another seed gives other episodes")


def _check_resume(pool: HostEnv, other: HostEnv) -> EnvCheck:
    if other.restore(pool.snapshot()) and np.array_equal(other.current, pool.current):
        return EnvCheck("resume", "pass", "running episodes can be restored from a checkpoint")
    message = "running episodes cannot be restored: a resumed run starts new ones, and is not identical"
    return EnvCheck("resume", "warn", message)


def _check_space(pool: HostEnv, played: Played) -> Iterator[EnvCheck]:
    """Check the bounds of the observation space, where the pool has one."""
    space = getattr(pool, "_observation_space", None)
    low, high = (getattr(space, side, None) for side in ("low", "high"))
    if low is None or high is None or np.shape(low) != pool.observation.shape:
        return
    values = np.stack([step.final_observation for step in played.steps])
    outside = (values < np.asarray(low, np.float32)) | (values > np.asarray(high, np.float32))
    if outside.any():
        part = int(np.argmax(outside.reshape(-1, values[0, 0].size).any(0)))
        column = values.reshape(-1, values[0, 0].size)[:, part]
        bounds = f"[{np.ravel(low)[part]:g}, {np.ravel(high)[part]:g}]"
        message = f"part {part} of the observation is in [{column.min():g}, {column.max():g}], its space is {bounds}"
        yield EnvCheck("bounds", "warn", message)
    else:
        yield EnvCheck("bounds", "pass", "observations are within the bounds of their space")
