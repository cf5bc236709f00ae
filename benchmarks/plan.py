"""Speed of planning: start of the command, and a grid of 10,000 shapes.

Both are compared with starting Python, which is measured in turns with them: machines differ, and their speed drifts.
Run: make bench
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from rollshape.geometry.plan import plan

REPEATS, GRID_REPEATS = 11, 3
START_LIMIT, GRID_LIMIT = 0.3, 1.0
EMPTY, GRID = "empty python", "10,000 plans"


def seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def command(*argv: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *argv], check=True, stdout=subprocess.DEVNULL)


def grid() -> None:
    for num_envs in range(1, 101):
        for num_steps in range(1, 101):
            plan(num_envs=num_envs, num_steps=num_steps, total_timesteps=1_000_000)


def measure() -> dict[str, list[float]]:
    """Return the seconds of each repetition by name; those of one index were measured one after the other."""
    shape = ("-m", "rollshape.cli", "plan", "--num-envs", "16", "--num-steps", "16")
    actions = {
        EMPTY: command("-c", "pass"),
        "rollshape plan": command(*shape),
        "rollshape plan --json": command(*shape, "--json"),
        "rollshape dialects": command("-m", "rollshape.cli", "dialects"),
        GRID: grid,
    }
    times: dict[str, list[float]] = {name: [] for name in actions}
    for i in range(REPEATS):
        for name, action in actions.items():
            if name != GRID or i < GRID_REPEATS:
                times[name].append(seconds(action))
    return times


def show(times: dict[str, list[float]]) -> bool:
    """Print the medians; return whether all limits are met."""
    met, empty = True, statistics.median(times[EMPTY])
    for name, column in times.items():
        median, verdict = statistics.median(column), ""
        if name != EMPTY:
            limit = GRID_LIMIT if name == GRID else START_LIMIT
            met = met and median < limit
            verdict = f"{'<' if median < limit else '≥'} {limit} s"
        print(f"{name:<24}{median:8.3f} s  {median / empty:6.1f} × empty python  {verdict}".rstrip(), flush=True)
    return met


if __name__ == "__main__":
    sys.exit(0 if show(measure()) else 1)
