"""Speed of planning: start of the command, and a grid of 10,000 shapes.

Both are compared with a reference in the same run (starting Python; a loop of 10,000 divisions): machines differ.
Run: make bench
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from rollshape.geometry.plan import plan

REPEATS = 11
START_LIMIT, GRID_LIMIT = 0.3, 1.0


def median_seconds(action: Callable[[], object], repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def command(*argv: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *argv], check=True, stdout=subprocess.DEVNULL)


def grid() -> None:
    for num_envs in range(1, 101):
        for num_steps in range(1, 101):
            plan(num_envs=num_envs, num_steps=num_steps, total_timesteps=1_000_000)


def main() -> int:
    empty = median_seconds(command("-c", "pass"))
    shape = ("-m", "rollshape.cli", "plan", "--num-envs", "16", "--num-steps", "16")
    rows = [
        ("empty python", empty, None),
        ("rollshape plan", median_seconds(command(*shape)), START_LIMIT),
        ("rollshape plan --json", median_seconds(command(*shape, "--json")), START_LIMIT),
        ("rollshape dialects", median_seconds(command("-m", "rollshape.cli", "dialects")), START_LIMIT),
        ("10,000 plans", median_seconds(grid, repeats=3), GRID_LIMIT),
    ]
    met = True
    for name, seconds, limit in rows:
        verdict = ""
        if limit is not None:
            met = met and seconds < limit
            verdict = f"{'<' if seconds < limit else '≥'} {limit} s"
        print(f"{name:<24}{seconds:8.3f} s  {seconds / empty:6.1f} × empty python  {verdict}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
