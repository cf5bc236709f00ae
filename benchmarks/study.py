"""Cost of a whole study, compared with training its trials alone and with the same training in SB3.

Runs `rollshape study tradeoff` from an empty compilation cache (6 shapes × 20 seeds × 300k steps of CartPole, and the
probes), then SB3's PPO at each of its shapes for a part of a trial: once one run after the other with all threads, as
in a script, and once with one single-threaded process per core. Core-seconds are seconds × cores. SB3 needs the peers'
environment (`make test-peers` creates it).
Run: .venv/bin/python benchmarks/study.py [STUDY]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PEERS = Path(__file__).parents[1] / ".venv-peers" / "bin" / "python"
DEARER, FASTER, ROLLOUTS = 1.5, 10.0, 6  # than bare training, at most; than SB3, at least; of SB3's that are timed
SB3 = """
import sys, time, torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.callbacks import BaseCallback
env, envs, steps, minibatch, epochs, rollouts, threads = sys.argv[1], *(int(x) for x in sys.argv[2:])
torch.set_num_threads(threads)
class Clock(BaseCallback):
    at = []
    def _on_rollout_start(self):
        self.at.append(time.perf_counter())
    def _on_step(self):
        return True
model = PPO("MlpPolicy", make_vec_env(env, envs), n_steps=steps, batch_size=minibatch, n_epochs=epochs, ent_coef=0.01,
            device="cpu", seed=0)
model.learn(envs * steps * rollouts, callback=Clock())
at = Clock.at + [time.perf_counter()]
print(envs * steps * (rollouts - 1) / (at[-1] - at[1]))
"""


def study(name: str, out: Path, cache: Path) -> float:
    """Seconds of the command, report and all."""
    command = [sys.executable, "-m", "rollshape.cli", "study", name, "--out", str(out), "--json"]
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": str(cache)})
    return time.perf_counter() - began


def core_seconds(folder: Path) -> dict[str, float]:
    """What the trials spent their time on, from the journal and the runs. One seed of a shape is probed."""
    times: dict[str, dict[str, float]] = {}
    for event in map(json.loads, (folder / "journal.jsonl").read_text().splitlines()):
        if "trial" in event:
            times.setdefault(event["trial"], {})[event["event"]] = event["time"]
    parts = {"training": 0.0, "compiling": 0.0, "scores and files": 0.0, "probes": 0.0}
    others: dict[str, dict[str, float]] = {}  # by shape and trial: neither training nor compiling
    for trial, at in times.items():
        summary = json.loads((folder / "trials" / trial / "run.json").read_text())["summary"]
        training, compiling = summary["timesteps"] / summary["sps"], summary["compile_s"]
        parts["training"] += training
        parts["compiling"] += compiling
        others.setdefault(trial.split("-")[0], {})[trial] = at["end"] - at["begin"] - training - compiling
    for of_shape in others.values():
        usual = statistics.median(of_shape.values())
        parts["scores and files"] += usual * len(of_shape)
        probed = [other for trial, other in of_shape.items() if (folder / "probes" / trial).exists()]
        parts["probes"] += sum(probed) - usual * len(probed)
    return parts


def sb3_rate(plan: Mapping[str, Any], env: str, threads: int) -> float:
    """Steps per second of one process after its first rollout."""
    sizes = (plan[name] for name in ("num_envs", "num_steps", "minibatch_size", "num_epochs"))
    command = [str(PEERS), "-W", "ignore", "-c", SB3, env, *map(str, sizes), str(ROLLOUTS), str(threads)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main(name: str) -> int:
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        seconds = study(name, Path(folder) / "study", Path(folder) / "cache")
        runs = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("study/trials/*/run.json"))]
        parts = core_seconds(Path(folder) / "study")
    bare = sum(run["summary"]["timesteps"] / run["summary"]["sps"] for run in runs)
    steps = sum(run["summary"]["timesteps"] for run in runs)
    ratio = seconds * cores / bare
    print(f"{name}: {len(runs)} trials, {steps:,} steps in {seconds:.0f} s on {cores} cores; their bare training "
          f"{bare:.0f} core-seconds: {ratio:.2f} × (bar {DEARER:g})")  # fmt: skip
    parts["the rest"] = seconds * cores - sum(parts.values())  # start, report, waiting for the last trial
    print("  " + ", ".join(f"{name} {part / seconds / cores:.0%}" for name, part in parts.items()), flush=True)
    if not PEERS.exists():
        return 0 if ratio <= DEARER else 1
    shapes = {(run["plan"]["num_envs"], run["plan"]["num_steps"]): run for run in runs}
    apart = beside_sb3(runs, shapes, cores, threads=1)
    whole = beside_sb3(runs, shapes, 1, threads=cores)
    print(f"  SB3's training alone takes {whole:,.0f} s, one run after the other with {cores} threads: "
          f"{whole / seconds:.1f} × the study (bar {FASTER:.0f}); {apart:,.0f} s in {cores} processes of one thread: "
          f"{apart / seconds:.1f} × the study, {apart * cores / bare:.1f} × our training alone")  # fmt: skip
    return 0 if ratio <= DEARER and whole >= FASTER * seconds else 1


def beside_sb3(runs: list[Any], shapes: Mapping[tuple[int, int], Any], processes: int, threads: int) -> float:
    """Seconds that all runs would take in SB3, from the rate at each shape."""
    with ThreadPoolExecutor(processes) as pool:
        found = pool.map(lambda run: sb3_rate(run["plan"], run["spec"]["env"], threads), shapes.values())
        rates = dict(zip(shapes, found, strict=True))
    for (envs, steps), rate in rates.items():
        print(f"  SB3 at {envs}×{steps}: {rate:,.0f} steps/s with {threads} threads")
    return sum(
        run["summary"]["timesteps"] / rates[run["plan"]["num_envs"], run["plan"]["num_steps"]] / processes
        for run in runs
    )


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or ["tradeoff"])))
