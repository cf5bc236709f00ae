"""Peak memory of a run, compared with the plan, for vector and image observations.

The peak is the growth of the resident set after imports, in a separate process.
Run: .venv/bin/python benchmarks/memory.py
"""

from __future__ import annotations

import json
import subprocess
import sys

TOLERANCE = 0.25
RUNS = {
    "vectors": {"env": "CartPole-v1", "num_envs": 16384, "num_steps": 256, "num_minibatches": 8},
    "few minibatches": {"env": "Pendulum-v1", "num_envs": 16384, "num_steps": 128, "num_minibatches": 2},
    "pictures": {"env": "gymnax:Breakout-MinAtar", "num_envs": 1024, "num_steps": 128, "num_minibatches": 32},
    "large pictures": {"env": "envpool:Pong-v5", "num_envs": 32, "num_steps": 256, "num_minibatches": 64},
}
CODE = """
import json, os, sys, threading, time
import psutil
from rollshape.algorithms.parallel import reserve_devices
from rollshape.training.setup import new_driver, plan_run
from rollshape.training.spec import Spec
import jax, jax.numpy as jnp
reserve_devices()
jnp.ones(1).block_until_ready()
spec = Spec(**{"num_epochs": 1, **json.loads(sys.argv[1])}, total_timesteps=2**40)
plan = plan_run(spec)
process, peak = psutil.Process(), 0
baseline = process.memory_info().rss
def watch():
    global peak
    while True:
        peak = max(peak, process.memory_info().rss)
        time.sleep(0.005)
threading.Thread(target=watch, daemon=True).start()
driver = new_driver(spec, plan, 1)
state = driver.start()
driver.compile(state)  # as `train` does, before there is a rollout
for _ in range(2):
    state, _, _ = driver.advance(state, 1)
print(json.dumps({"measured": peak - baseline, "planned": plan.memory.peak_bytes}))
"""


def main() -> int:
    met = True
    for name, spec in RUNS.items():
        made = subprocess.run([sys.executable, "-c", CODE, json.dumps(spec)], capture_output=True, text=True)
        if made.returncode:
            print(f"{name:16} failed: {made.stderr.strip().splitlines()[-1]}")
            met = False
            continue
        row = json.loads(made.stdout.splitlines()[-1])
        ratio = row["measured"] / row["planned"]
        met = met and abs(ratio - 1) <= TOLERANCE
        shape = f"{spec['env']} {spec['num_envs']}×{spec['num_steps']}"
        planned, measured = row["planned"] / 1e6, row["measured"] / 1e6
        print(
            f"{name:16} {shape:36} planned {planned:7,.0f} MB   measured {measured:7,.0f} MB   {ratio:.2f}", flush=True
        )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
