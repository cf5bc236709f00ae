"""How training grows: steps/s, compile time and memory over N, and compile time over T; nothing should be superlinear.

CartPole-v1, PPO, 4 epochs of 4 minibatches. Every shape runs in a process of its own with an empty compilation cache,
so its peak memory is its own. Run on an idle machine: .venv/bin/python benchmarks/growth.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

NUM_STEPS, MOST_ENVS = 16, 65_536
NUM_ENVS, MOST_STEPS = 8, 4_096
SECONDS = 3.0
STEPS_TOLERANCE, COMPILE_TOLERANCE = 0.8, 1.5  # of the best speed so far; of the first compile time


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="every other power of four")
    parser.add_argument("--shape", nargs=2, type=int, metavar=("N", "T"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.shape:
        print(json.dumps(measure(*args.shape)))
        return 0
    factor = 16 if args.quick else 4
    by_envs = table("num_envs", [(n, NUM_STEPS) for n in powers(64, MOST_ENVS, factor)])
    by_steps = table("num_steps", [(NUM_ENVS, t) for t in sorted({*powers(2, MOST_STEPS, factor), MOST_STEPS})])
    slowest = min(row["sps"] / max(other["sps"] for other in by_envs[: i + 1]) for i, row in enumerate(by_envs))
    compiles = [row["compile_s"] for rows in (by_envs, by_steps) for row in rows]
    memory = [row["peak_mb"] for row in (*by_envs, *by_steps)]
    print(f"lowest speed over the best of a smaller N: {slowest:.2f}; longest over shortest compile time: "
          f"{max(compiles) / min(compiles):.1f}; peak memory {min(memory):,.0f} to {max(memory):,.0f} MB")  # fmt: skip
    return 0 if slowest >= STEPS_TOLERANCE and max(compiles) <= COMPILE_TOLERANCE * compiles[0] else 1


def powers(first: int, last: int, factor: int) -> list[int]:
    sizes = [first]
    while sizes[-1] < last:
        sizes.append(min(sizes[-1] * factor, last))
    return sizes


def table(what: str, shapes: list[tuple[int, int]]) -> list[dict[str, float]]:
    """Measure shapes one after the other; print and return a row for each."""
    print(f"by {what}\n{'shape':>12} {'samples':>10} {'steps/s':>12} {'compile s':>10} {'peak MB':>10}", flush=True)
    rows = []
    for n, t in shapes:
        row = in_new_process(n, t)
        rows.append(row)
        print(f"{n:>7}x{t:<4} {n * t:>10,} {row['sps']:>12,.0f} {row['compile_s']:>10.1f} {row['peak_mb']:>10,.0f}",
              flush=True)  # fmt: skip
    return rows


def in_new_process(n: int, t: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--shape", str(n), str(t)]
        run = subprocess.run(command, env={**os.environ, "XDG_CACHE_HOME": cache}, capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    row: dict[str, float] = json.loads(run.stdout)
    return row


def measure(n: int, t: int) -> dict[str, float]:
    """Train one shape for some seconds; return steps/s, compile time, and the peak memory of this process."""
    from rollshape.envs.access import EnvAccess
    from rollshape.training.setup import plan_run
    from rollshape.training.spec import Spec
    from rollshape.training.speed import TrainingTimer

    spec = Spec(env="CartPole-v1", num_envs=n, num_steps=t, num_minibatches=4, num_epochs=4, total_timesteps=n * t)
    timer = TrainingTimer(spec, plan_run(spec), SECONDS, EnvAccess())
    speeds, began = [timer.time_interval()], time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        speeds.append(timer.time_interval())
    speeds.sort()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"samples": n * t, "sps": speeds[len(speeds) // 2], "compile_s": timer.compile_s, "peak_mb": peak}


if __name__ == "__main__":
    sys.exit(main())
