"""Peak memory of `rollshape train`, compared with its plan, each configuration in a process of its own.

The peak is the largest resident set of the whole process, of a first run (which compiles) and of a second one (whose
program is in the compilation cache): the plan's peak, and its peak without the compiler's part. The formulas were
derived from the first table; the second one was measured afterwards, as a test of them.
Run: .venv/bin/python benchmarks/memory.py [NAME …]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

TOLERANCE = 0.25
CARTPOLE, PENDULUM = {"env": "CartPole-v1"}, {"env": "Pendulum-v1"}
BREAKOUT, HOST = {"env": "gymnax:Breakout-MinAtar"}, {"env": "gymnasium:CartPole-v1"}
ONE_EPOCH = {"num_epochs": 1}
DERIVED: dict[str, dict[str, Any]] = {
    "small": CARTPOLE | {"num_envs": 4, "num_steps": 32},
    "64x128": CARTPOLE | {"num_envs": 64, "num_steps": 128},
    "2048x16": CARTPOLE | {"num_envs": 2048, "num_steps": 16},
    "4096x128": CARTPOLE | {"num_envs": 4096, "num_steps": 128} | ONE_EPOCH,
    "16384x256": CARTPOLE | {"num_envs": 16384, "num_steps": 256, "num_minibatches": 8} | ONE_EPOCH,
    "normalized": CARTPOLE
    | {"num_envs": 16384, "num_steps": 256, "num_minibatches": 8, "normalize_observations": True}
    | ONE_EPOCH,
    "a2c-large": CARTPOLE | {"algo": "a2c", "num_envs": 16384, "num_steps": 256},
    "hidden-1024": CARTPOLE | {"num_envs": 16, "num_steps": 64, "hidden_sizes": [1024, 1024]},
    "hidden-4096": CARTPOLE | {"num_envs": 8, "num_steps": 16, "hidden_sizes": [4096, 4096]} | ONE_EPOCH,
    "hidden-4096-shards": CARTPOLE
    | {"num_envs": 64, "num_steps": 16, "num_minibatches": 1, "hidden_sizes": [4096, 4096]}
    | ONE_EPOCH,
    "microbatch": CARTPOLE
    | {"num_envs": 256, "num_steps": 64, "num_minibatches": 1, "hidden_sizes": [1024, 1024], "microbatch_size": 8192}
    | ONE_EPOCH,
    "images": BREAKOUT | {"num_envs": 64, "num_steps": 64} | ONE_EPOCH,
    "images-large": BREAKOUT | {"num_envs": 1024, "num_steps": 256, "num_minibatches": 32} | ONE_EPOCH,
    "a2c": CARTPOLE | {"algo": "a2c", "num_envs": 512, "num_steps": 64},
    "reinforce": PENDULUM | {"algo": "reinforce", "num_envs": 256, "num_steps": 200},
    "ppo-ewma": CARTPOLE | {"algo": "ppo-ewma", "num_envs": 64, "num_steps": 64, "hidden_sizes": [512, 512]},
    "sac": PENDULUM | {"algo": "sac", "num_envs": 4, "learning_starts": 1000, "buffer_size": 1_000_000},
    "sac-buffer": PENDULUM | {"algo": "sac", "num_envs": 4, "learning_starts": 1000, "buffer_size": 20_000_000},
    "rrd": PENDULUM | {"algo": "rrd", "num_envs": 4, "learning_starts": 1000, "train_batches": 5},
    "host": HOST | {"num_envs": 8, "num_steps": 64},
    "host-hidden-4096": HOST | {"num_envs": 8, "num_steps": 16, "hidden_sizes": [4096, 4096]} | ONE_EPOCH,
    "envpool-long": {"env": "envpool:CartPole-v1", "num_envs": 1024, "num_steps": 2048} | ONE_EPOCH,
}
TESTED: dict[str, dict[str, Any]] = {
    "acrobot": {"env": "Acrobot-v1", "num_envs": 32, "num_steps": 32, "num_minibatches": 2},
    "frozenlake": {"env": "tabular:FrozenLake-v1", "num_envs": 8192, "num_steps": 256, "num_minibatches": 16}
    | ONE_EPOCH,
    "pendulum-large": PENDULUM | {"num_envs": 16384, "num_steps": 512, "num_minibatches": 2} | ONE_EPOCH,
    "asterix": {"env": "gymnax:Asterix-MinAtar", "num_envs": 512, "num_steps": 256, "num_minibatches": 1} | ONE_EPOCH,
    "hidden-3-layers": CARTPOLE
    | {"num_envs": 16, "num_steps": 128, "num_minibatches": 4, "hidden_sizes": [2048, 2048, 2048]}
    | ONE_EPOCH,
    "many-envs-wide": CARTPOLE
    | {"num_envs": 16384, "num_steps": 4, "num_minibatches": 16, "hidden_sizes": [1024, 512]}
    | ONE_EPOCH,
    "target-kl": PENDULUM
    | {"num_envs": 8, "num_steps": 64, "num_minibatches": 1, "hidden_sizes": [3072, 3072], "target_kl": 0.05}
    | ONE_EPOCH,
    "monitored": CARTPOLE
    | {"num_envs": 64, "num_steps": 16, "hidden_sizes": [2048, 2048], "monitor_gradients": True}
    | ONE_EPOCH,
    "ppo-ewma-wide": PENDULUM
    | {"algo": "ppo-ewma", "num_envs": 64, "num_steps": 32, "num_minibatches": 2, "hidden_sizes": [3072, 3072]}
    | ONE_EPOCH,
    "reinforce-wide": CARTPOLE | {"algo": "reinforce", "num_envs": 16, "num_steps": 64, "hidden_sizes": [3072, 3072]},
    "a2c-images": BREAKOUT | {"algo": "a2c", "num_envs": 256, "num_steps": 256},
    "sac-wide": PENDULUM
    | {"algo": "sac", "num_envs": 4, "learning_starts": 1000, "train_batches": 2, "hidden_sizes": [3072, 3072]},
    "rrd-images": BREAKOUT
    | {"algo": "rrd", "num_envs": 4, "learning_starts": 1000, "train_batches": 2, "buffer_size": 300_000},
    "host-sac": {"env": "gymnasium:Pendulum-v1", "algo": "sac", "num_envs": 2, "learning_starts": 500},
    "host-wide": {"env": "gymnasium:Acrobot-v1", "num_envs": 16, "num_steps": 64, "hidden_sizes": [2048, 2048]}
    | ONE_EPOCH,
    "envpool-normalized": {"env": "envpool:Acrobot-v1", "num_envs": 64, "num_steps": 4096, "hidden_sizes": [256, 256]}
    | {"normalize_observations": True}
    | ONE_EPOCH,
}


class Result(NamedTuple):
    """Peaks of a first and a second run, and the plan's memory."""

    first: int
    second: int
    memory: dict[str, Any]


def main(names: list[str]) -> int:
    met = True
    for title, runs in (("derived from", DERIVED), ("tested on", TESTED)):
        print(f"{title:24} planned  first run          planned  second run")
        for name, flags in runs.items():
            if names and name not in names:
                continue
            try:
                met = report(name, measure(flags)) and met
            except RuntimeError as error:
                met = False
                print(f"{name:20} failed: {error}")
    return 0 if met else 1


def report(name: str, result: Result) -> bool:
    peak = result.memory["peak_bytes"]
    later = peak - result.memory["compiler_bytes"]
    ratios = result.first / peak, result.second / later
    print(
        f"{name:20} {peak / 1e6:8,.0f} MB {result.first / 1e6:8,.0f} MB  {ratios[0]:.2f}"
        f" {later / 1e6:8,.0f} MB {result.second / 1e6:8,.0f} MB  {ratios[1]:.2f}",
        flush=True,
    )
    return all(abs(ratio - 1) <= TOLERANCE for ratio in ratios)


def measure(flags: dict[str, Any]) -> Result:
    """Train for a few updates twice, with an empty and with a filled compilation cache."""
    size = flags.get("num_envs", 1) * flags.get("num_steps", 1)
    total = 2 * size if "num_steps" in flags else flags["learning_starts"] + 300
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rollshape.cli", "train", "--json", "--total-timesteps", str(total)]
        command += [word for name, value in flags.items() for word in as_flag(name, value)]
        environment = {**os.environ, "XDG_CACHE_HOME": f"{folder}/cache"}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        peaks = [peak_of([*command, "--out", f"{folder}/{i}"], environment) for i in range(2)]
        document = json.loads((Path(folder) / "0" / "run.json").read_text())
    return Result(*peaks, document["plan"]["memory"])


def as_flag(name: str, value: Any) -> list[str]:
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return [flag]
    return [flag, *map(str, value if isinstance(value, list) else [value])]


def peak_of(command: list[str], environment: dict[str, str]) -> int:
    """Return the largest resident set of a process in bytes."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stderr is not None
        errors = process.stderr.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(errors.strip().rpartition("\n")[2])
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
