"""Learning results: mean of `final_return` over several seeds with a 95 % t-interval, for each task and algorithm.

Run: .venv/bin/python benchmarks/ladder.py [--seeds 5] [--only NAME …]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from rollshape.training.presets import with_preset
from rollshape.training.run import train
from rollshape.training.spec import Spec

STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365, 10: 2.262, 20: 2.093}  # by seeds
REINFORCE: dict[str, Any] = {
    "env": "CartPole-v1", "algo": "reinforce", "num_envs": 32, "num_steps": 500, "total_timesteps": 1_600_000,
    "learning_rate": 1e-2, "normalize_advantages": "off",
}  # fmt: skip
ROWS: dict[str, dict[str, Any]] = {
    "cartpole": {"env": "CartPole-v1", "preset": True},
    "acrobot": {"env": "Acrobot-v1", "preset": True},
    "pendulum": {"env": "Pendulum-v1", "preset": True, "total_timesteps": 400_000},
    "frozenlake": {
        "env": "FrozenLake-v1", "num_envs": 64, "num_steps": 32, "total_timesteps": 300_000, "learning_rate": 3e-3,
        "entropy_coef": 0.01,
    },
    "a2c": {
        "env": "CartPole-v1", "algo": "a2c", "num_envs": 64, "num_steps": 8, "total_timesteps": 500_000,
        "learning_rate": 3e-3, "normalize_advantages": "off",
    },
    "reinforce-none": {**REINFORCE, "baseline": "none"},
    "reinforce-mean": {**REINFORCE, "baseline": "mean"},
    "reinforce-value": {**REINFORCE, "baseline": "value"},
    "breakout": {
        "env": "gymnax:Breakout-MinAtar", "num_envs": 64, "num_steps": 64, "num_minibatches": 8,
        "total_timesteps": 1_000_000, "learning_rate": 1e-3, "anneal_lr": True, "entropy_coef": 0.01,
    },
}  # fmt: skip


def command(row: dict[str, Any]) -> str:
    """The flags of a row, as `rollshape train` takes them."""
    words = []
    for name, value in row.items():
        flag = "--" + name.replace("_", "-")
        words += [flag] if value is True else [flag, str(value)]
    return " ".join(words)


def spec_of(row: dict[str, Any], seed: int) -> Spec:
    fields = {name: value for name, value in row.items() if name != "preset"}
    spec = Spec(**fields, seed=seed)
    return with_preset(spec)[0] if row.get("preset") else spec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=ROWS, default=list(ROWS))
    args = parser.parse_args()
    for name in args.only:
        returns, speeds, steps = [], [], 0
        for seed in range(args.seeds):
            with tempfile.TemporaryDirectory() as scratch:
                summary = train(spec_of(ROWS[name], seed), out=Path(scratch) / "run").summary
            returns.append(summary["final_return"])
            speeds.append(summary["sps"])
            steps = summary["timesteps"]
        half = STUDENT[args.seeds] * statistics.stdev(returns) / args.seeds**0.5 if args.seeds in STUDENT else 0.0
        score = f"{statistics.mean(returns):.1f} ± {half:.1f}   {[round(value, 1) for value in returns]}"
        print(f"{name}\n    {command(ROWS[name])}")
        print(f"    {steps:,} timesteps   {score}   {statistics.median(speeds):,.0f} steps/s", flush=True)


if __name__ == "__main__":
    main()
