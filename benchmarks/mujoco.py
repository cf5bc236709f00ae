"""MuJoCo tasks of EnvPool, compared with SB3's PPO: same pool, settings and machine, several seeds.

SB3 runs in the peers' environment (`make test-peers` creates it). Returns are means over 128 fresh episodes.
Run: .venv/bin/python benchmarks/mujoco.py --env HalfCheetah-v5 --seeds 5
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from rollshape.training.run import train
from rollshape.training.spec import Spec

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers" / "bin" / "python"
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365, 10: 2.262}  # two-sided 95 %, by seeds


def spec_of(env: str, seed: int, timesteps: int) -> Spec:
    return Spec(
        env=f"envpool:{env}", seed=seed, num_envs=16, num_steps=128, minibatch_size=128, num_epochs=10,
        total_timesteps=timesteps, anneal_lr=True, normalize_observations=True, normalize_rewards=True,
    )  # fmt: skip


def ours(spec: Spec) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        summary = train(spec, out=Path(scratch) / "run").summary
    return {"final_return": summary["final_return"], "sps": summary["sps"]}


def sb3(spec: Spec) -> dict[str, Any]:
    command = [str(PEERS), "-W", "ignore", str(HERE / "sb3" / "train_mujoco.py"), json.dumps(spec.to_dict())]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")[-2]))


def told(rows: list[dict[str, Any]]) -> str:
    returns = [row["final_return"] for row in rows]
    half = STUDENT[len(rows)] * statistics.stdev(returns) / len(rows) ** 0.5 if len(rows) in STUDENT else float("nan")
    speed = statistics.median(row["sps"] for row in rows)
    return f"{statistics.mean(returns):8.0f} ± {half:5.0f}   {speed:10,.0f} steps/s   {[round(r) for r in returns]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--timesteps", type=int, default=1_000_000)
    parser.add_argument("--only", choices=("rollshape", "sb3"))
    args = parser.parse_args()
    for name, run in (("rollshape", ours), ("sb3", sb3)):
        if args.only in (None, name):
            rows = []
            for seed in range(args.seeds):
                rows.append(run(spec_of(args.env, seed, args.timesteps)))
                print(f"{args.env:16} {name:10} seed {seed}: {rows[-1]}", flush=True)
            print(f"{args.env:16} {name:10} {told(rows)}", flush=True)


if __name__ == "__main__":
    main()
