"""Several seeds at the same time: one process per core, as `train --num-seeds` does, or one program by vmap.

CartPole, 4 epochs and 4 minibatches, one shard. Every rate is the best of four calls. A vectorized program may also
round differently, because several products become one larger product: the last column says whether all metrics are
those of single runs, bit for bit.
Run: .venv/bin/python benchmarks/seeds.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rollshape.compiler_options import training_options
from rollshape.training.compiled_driver import CompiledDriver
from rollshape.training.setup import new_driver, plan_run
from rollshape.training.spec import checked_spec

SHAPES = ((4, 128), (64, 128), (2, 1024))
STEPS, CALLS, SEEDS = 200_000, 4, 4


def main() -> None:
    cores = os.cpu_count() or 1
    print(f"steps/s: {cores} processes, one per core; {SEEDS} seeds in one program by vmap")
    print(f"{'shape':>8} {'processes':>12} {'vmap':>12} {'ratio':>7}   the same numbers")
    for shape in SHAPES:
        processes = sum(rates_at_once(shape, cores))
        vectorized, same = vectorized_rate(*shape)
        ratio, answer = vectorized / processes, "yes" if same else "no"
        print(f"{shape[0]:>3}×{shape[1]:<4} {processes:12,.0f} {vectorized:12,.0f} {ratio:7.2f}   {answer}", flush=True)


def rates_at_once(shape: tuple[int, int], count: int) -> list[float]:
    """Return the steps/s of processes that train at the same time, each pinned to a core."""
    command = [sys.executable, __file__, *map(str, shape)]
    running = [subprocess.Popen([*command, str(core)], stdout=subprocess.PIPE, text=True) for core in range(count)]
    return [float(process.communicate()[0].split()[-1]) for process in running]


def single_rate(num_envs: int, num_steps: int) -> float:
    """Return the steps/s of one run."""
    driver, updates = new_run(num_envs, num_steps)
    program, state = jax.jit(driver.run, compiler_options=training_options()), driver.initial_state(np.uint32(0))
    return updates * num_envs * num_steps / best_seconds(lambda: program(state, np.int32(updates), np.bool_(True)))


def vectorized_rate(num_envs: int, num_steps: int) -> tuple[float, bool]:
    """Return the steps/s of all seeds in one program, and whether its metrics are those of single runs."""
    driver, updates = new_run(num_envs, num_steps)
    options, arguments = training_options(), (np.int32(updates), np.bool_(True))
    states = [driver.initial_state(np.uint32(seed)) for seed in range(SEEDS)]
    stacked: Any = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    single = jax.jit(driver.run, compiler_options=options)
    program = jax.jit(jax.vmap(driver.run, (0, None, None)), compiler_options=options)
    rows = np.asarray(program(stacked, *arguments)[1])
    same = all(
        np.array_equal(row, single(state, *arguments)[1], equal_nan=True)
        for row, state in zip(rows, states, strict=True)
    )
    return SEEDS * updates * num_envs * num_steps / best_seconds(lambda: program(stacked, *arguments)), same


def new_run(num_envs: int, num_steps: int) -> tuple[CompiledDriver, int]:
    """Return the driver of a run, and how many updates one call makes."""
    updates = max(4, STEPS // (num_envs * num_steps))
    spec = checked_spec(
        env="CartPole-v1", num_envs=num_envs, num_steps=num_steps, num_epochs=4, num_minibatches=4, num_shards=1,
        total_timesteps=num_envs * num_steps * updates,
    )  # fmt: skip
    driver = new_driver(spec, plan_run(spec), updates)
    assert isinstance(driver, CompiledDriver)
    return driver, updates


def best_seconds(call: Callable[[], Any]) -> float:
    jax.block_until_ready(call())  # compiles
    seconds = []
    for _ in range(CALLS):
        began = time.perf_counter()
        jax.block_until_ready(call())
        seconds.append(time.perf_counter() - began)
    return min(seconds)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {int(sys.argv[3])})
        print(single_rate(int(sys.argv[1]), int(sys.argv[2])))
    else:
        main()
