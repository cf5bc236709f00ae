"""Scaling over processes: training of one shape by one process and by two that each hold half of the environments.

Both train the same run, bit for bit: two shards, on two devices of one process or on one device of each process. Both
are compared with one shard in one process, which is a run of its own. Medians of alternating turns.
Run on an idle machine: .venv/bin/python benchmarks/processes.py [--turns 3]
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SHAPES = ((64, 128), (2048, 16))
STEPS = 3_000_000
VARIANTS = {"1 process, 1 shard": (1, 1), "1 process, 2 shards": (1, 2), "2 processes, 2 shards": (2, 2)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=3)
    turns: int = parser.parse_args().turns
    for shape in SHAPES:
        speeds: dict[str, list[float]] = {name: [] for name in VARIANTS}
        returns: dict[str, float] = {}
        for _ in range(turns):
            for name, (num_processes, num_shards) in VARIANTS.items():
                summary = train(shape, num_processes, num_shards)
                speeds[name].append(summary["sps"])
                returns[name] = summary["final_return"]
        first = statistics.median(speeds["1 process, 1 shard"])
        for name, column in speeds.items():
            middle = statistics.median(column)
            print(f"{shape[0]}x{shape[1]:<5} {name:<22} {middle:>10,.0f} steps/s ({min(column):,.0f} – "
                  f"{max(column):,.0f})  {middle / first:.2f} x one shard", flush=True)  # fmt: skip
        if returns["1 process, 2 shards"] != returns["2 processes, 2 shards"]:
            print("The runs of one and two processes differ.")
            return 1
    return 0


def train(shape: tuple[int, int], num_processes: int, num_shards: int) -> dict[str, float]:
    """Return the summary of a run."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rollshape.cli", "train", "--env", "CartPole-v1", "--num-envs", str(shape[0]),
                   "--num-steps", str(shape[1]), "--total-timesteps", str(STEPS), "--num-shards", str(num_shards),
                   "--out", str(Path(folder) / "run"), "--json"]  # fmt: skip
        if num_processes > 1:
            command += ["--coordinator", free_address(), "--num-processes", str(num_processes)]
        processes = [
            subprocess.Popen(
                [*command, *(("--process-id", str(i)) if num_processes > 1 else ())], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True,
            )
            for i in range(num_processes)
        ]  # fmt: skip
        outputs = [process.communicate() for process in processes]
    if any(process.returncode for process in processes):
        sys.exit("\n".join(error for _, error in outputs))
    summary: dict[str, float] = json.loads(outputs[0][0])
    return summary


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


if __name__ == "__main__":
    sys.exit(main())
