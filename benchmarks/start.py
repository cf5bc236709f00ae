"""Seconds from the start of the command to the first row of metrics.jsonl, with empty and filled compilation cache.

CartPole-v1 at 64×128, 4 epochs of 4 minibatches. Run: .venv/bin/python benchmarks/start.py
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLD, WARM, REPEATS = 5.0, 2.5, 3
FLAGS = ("--env", "CartPole-v1", "--num-envs", "64", "--num-steps", "128", "--log-every", "1")


def first_update(cache: Path) -> float:
    """Of a run that is stopped as soon as it has told of an update."""
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "run" / "metrics.jsonl"
        command = [sys.executable, "-m", "rollshape.cli", "train", *FLAGS, "--total-timesteps", "10_000_000",
                   "--out", str(log.parent)]  # fmt: skip
        started = time.perf_counter()
        run = subprocess.Popen(
            command, env={**os.environ, "XDG_CACHE_HOME": str(cache)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        while not (log.exists() and log.stat().st_size):
            if run.poll() is not None:
                assert run.stderr is not None
                sys.exit(run.stderr.read().decode())
            time.sleep(0.02)
        seconds = time.perf_counter() - started
        run.terminate()
        run.communicate()
        return seconds


def main() -> int:
    cold, warm = [], []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(first_update(Path(cache)))
            warm.append(first_update(Path(cache)))
    found = statistics.median(cold), statistics.median(warm)
    print(f"first update after {found[0]:.1f} s with an empty cache (bar {COLD:g}), {found[1]:.1f} s with a warm one "
          f"(bar {WARM:g}); medians of {REPEATS}")  # fmt: skip
    return 0 if found[0] <= COLD and found[1] <= WARM else 1


if __name__ == "__main__":
    sys.exit(main())
