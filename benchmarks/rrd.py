"""SAC and RRD: gradient steps per second compared with SB3's SAC, replay memory compared with the plan, final returns.

Run: .venv/bin/python benchmarks/rrd.py speed           (SB3 in the peers' environment, `make test-peers` creates it)
     .venv/bin/python benchmarks/rrd.py memory
     .venv/bin/python benchmarks/rrd.py results --env Pendulum-v1 --seeds 5 [--out FILE.jsonl] [--jobs 2]
     .venv/bin/python benchmarks/rrd.py table FILE.jsonl
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers" / "bin" / "python"
FASTER, TOLERANCE = 3.0, 0.10  # than SB3; of the planned memory
NETWORK, BATCH = (256, 256), 256
SIZE, PRODUCTS = 256, 16  # of a gradient step of SAC: 16 products of 256 × 256 × 256
STUDENT = {3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365, 10: 2.262}  # two-sided 95 %, by seeds
MODES: dict[str, dict[str, Any]] = {
    "rrd": {"algo": "rrd"},
    "rrd-unbiased": {"algo": "rrd", "rrd_unbiased": True},
    "sac-episodic": {"algo": "sac", "episodic_reward": True},
    "sac-dense": {"algo": "sac"},
}
TASKS: dict[str, dict[str, Any]] = {  # 64-64 networks; budgets that a machine of two cores makes in minutes
    "Pendulum-v1": {"total_timesteps": 20_000, "learning_starts": 1_000, "train_batches": 100},
    "envpool:InvertedPendulum-v5": {"total_timesteps": 50_000, "learning_starts": 1_000, "train_batches": 50},
    "envpool:Reacher-v5": {"total_timesteps": 100_000, "learning_starts": 2_000, "train_batches": 25},
    "envpool:HalfCheetah-v5": {
        "total_timesteps": 200_000, "learning_starts": 10_000, "train_batches": 25, "hidden_sizes": (256, 256),
    },
    "gymnax:Breakout-MinAtar": {"total_timesteps": 50_000, "learning_starts": 2_000, "train_batches": 25},
}  # fmt: skip
SB3 = """
import sys, time, json, torch, numpy as np, gymnasium
from stable_baselines3 import SAC
torch.set_num_threads(int(sys.argv[1]))
model = SAC("MlpPolicy", "Pendulum-v1", batch_size=256, policy_kwargs={"net_arch": [256, 256]}, learning_starts=0,
            train_freq=1000, gradient_steps=1, device="cpu", seed=0)
model.learn(2000)
model.train(50, 256)
rates = []
for _ in range(int(sys.argv[2])):
    began = time.perf_counter()
    model.train(200, 256)
    rates.append(200 / (time.perf_counter() - began))
print(json.dumps(rates))
"""


def our_rates(algo: str, repeats: int) -> list[float]:
    """Gradient steps per second of the compiled call that makes an iteration's, on a replay of 2,000 steps."""
    import jax

    from rollshape.algorithms.replay import store
    from rollshape.compiler_options import training_options
    from rollshape.training.setup import new_driver, plan_run
    from rollshape.training.spec import Spec

    spec = Spec(env="Pendulum-v1", algo=algo, hidden_sizes=NETWORK, transition_batch_size=BATCH, train_batches=200,  # type: ignore[arg-type]
                learning_starts=2_000, total_timesteps=4_000)  # fmt: skip
    driver: Any = new_driver(spec, plan_run(spec))
    state, collect, append = driver.start(), jax.jit(driver.collect), jax.jit(store, donate_argnums=0)
    for _ in range(20):
        episodes, rollout = collect(state)
        learner = state.learner._replace(buffer=append(state.learner.buffer, rollout))
        state = state._replace(episodes=episodes, learner=learner, update=state.update + 1)
    train = jax.jit(driver.algorithm.train, compiler_options=training_options())
    agent, optimizers, buffer = state.learner.agent, state.learner.optimizers, state.learner.buffer
    rates = []
    for i in range(repeats + 1):
        began = time.perf_counter()
        (agent, optimizers), info = train(buffer, jax.random.key(i), agent, optimizers)
        info.q_loss.block_until_ready()
        rates.append(200 / (time.perf_counter() - began))
    return rates[1:]


def sb3_rates(threads: int, repeats: int) -> list[float]:
    command = [str(PEERS), "-W", "ignore", "-c", SB3, str(threads), str(repeats)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    return [float(rate) for rate in json.loads(printed)]


def speed(repeats: int) -> int:
    """In turn, twice each, so that a busy machine is busy for all of them."""
    from rollshape.training.bench import gemm_rate

    found: dict[str, list[float]] = {"sac": [], "rrd": [], "SB3's SAC, 1 thread": [], "SB3's SAC, 2 threads": []}
    for _ in range(2):
        found["sac"] += our_rates("sac", repeats)
        found["rrd"] += our_rates("rrd", repeats)
        if PEERS.exists():
            for threads in (1, 2):
                found[f"SB3's SAC, {threads} thread{'s' * (threads > 1)}"] += sb3_rates(threads, repeats)
    medians = {name: statistics.median(rates) for name, rates in found.items() if rates}
    theirs = max((rate for name, rate in medians.items() if name.startswith("SB3")), default=None)
    for name, rate in medians.items():
        print(f"{name:24} {rate:8.0f} gradient steps/s" + (f"  {rate / theirs:5.2f} ×" if theirs else ""))
    if theirs:
        needed = FASTER * theirs * PRODUCTS * 2 * SIZE**3
        rates = [rate / 1e9 for rate in (needed, gemm_rate(SIZE, 20), gemm_rate(count=20))]
        print(f"{FASTER:g} × SB3 needs {rates[0]:.0f} GFLOP/s for the products of SAC alone; NumPy reaches "
              f"{rates[1]:.0f} at their size and {rates[2]:.0f} at 2048 × 2048")  # fmt: skip
    return 0 if theirs is None or medians["sac"] >= FASTER * theirs else 1


def memory() -> int:
    """A million transitions of HalfCheetah's size, in episodes of 1,000 steps: resident memory beside the plan."""
    import jax
    import jax.numpy as jnp
    import psutil

    from rollshape.algorithms.base import Rollout
    from rollshape.algorithms.replay import new_buffer, store
    from rollshape.envs.spaces import Continuous, Observation
    from rollshape.geometry.plan import plan

    held, steps = 1_000_000, 1_000
    observation, action = Observation((17,)), Continuous(6, -1.0, 1.0)
    made = plan(algo="rrd", obs_shape=observation.shape, action_dim=6, action_kind="continuous", num_envs=1,
                buffer_size=held + held // steps, steps_per_iteration=steps)  # fmt: skip
    assert made.memory is not None
    column, count = (steps, 1), jnp.zeros((steps, 1), int)
    flags, seen = jnp.zeros(column, bool), jnp.ones((*column, 17))
    rollout = Rollout(
        observation=seen, action=jnp.ones((*column, 6)), reward=jnp.ones(column), terminated=flags,
        truncated=flags.at[-1].set(True), steps=count, episode_return=jnp.ones(column), episode_length=count,
        final_observation=seen,
    )  # fmt: skip
    empty = partial(new_buffer, made, observation, action)
    keep = jax.jit(store, donate_argnums=0).lower(jax.eval_shape(empty), rollout).compile()  # compiling is not counted
    fresh = jax.jit(empty).lower().compile()
    process = psutil.Process()
    before = process.memory_info().rss
    replay = fresh()
    began = time.perf_counter()
    for _ in range(held // steps):
        replay = keep(replay, rollout)
    replay.written.block_until_ready()
    seconds, grown = time.perf_counter() - began, process.memory_info().rss - before
    transitions, planned_bytes = int((replay.kind == 1).sum()), made.memory.replay_bytes
    print(f"{transitions:,} transitions in {grown / 1e6:.1f} MB resident, {planned_bytes / 1e6:.1f} MB planned "
          f"({grown / planned_bytes - 1:+.1%}), stored in {seconds:.1f} s")  # fmt: skip
    return 0 if transitions == held and abs(grown / planned_bytes - 1) <= TOLERANCE else 1


def one_run(job: tuple[str, str, int, dict[str, Any]]) -> dict[str, Any]:
    from rollshape.training.run import train

    env, mode, seed, changes = job
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        settings = {"hidden_sizes": (64, 64), **TASKS[env], **MODES[mode], **changes}
        run = train(out=Path(scratch) / "run", env=env, seed=seed, log_every=50, checkpoint_every=10**9, **settings)
    found = [row["reward_correlation"] for row in run.metrics if row["reward_correlation"] is not None]
    return {
        "env": env, "mode": mode, "seed": seed, "timesteps": run.summary["timesteps"], "status": run.status,
        "final_return": run.final_return, "reward_correlation": found[-1] if found else None,
        "seconds": round(time.perf_counter() - started, 1), "changes": changes,
    }  # fmt: skip


def results(args: argparse.Namespace) -> int:
    """Every mode and seed of a task, several at a time on a core each; a line of JSON a run."""
    changes = json.loads(args.changes)
    known = set()
    if args.out and Path(args.out).exists():
        known = {(row["env"], row["mode"], row["seed"]) for row in read(args.out)}
    jobs = [
        (args.env, mode, seed, changes)
        for seed in range(args.seeds)
        for mode in args.modes
        if (args.env, mode, seed) not in known
    ]
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    rows = []
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for row in pool.imap_unordered(one_run, jobs):
            rows.append(row)
            line = json.dumps(row)
            print(line, flush=True)
            if args.out:
                with Path(args.out).open("a") as file:
                    file.write(line + "\n")
    table(read(args.out) if args.out else iter(rows))
    return 0


def read(path: str) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in Path(path).read_text().splitlines())


def table(rows: Iterator[dict[str, Any]]) -> None:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["env"], row["mode"]), []).append(row)
    for (env, mode), group in sorted(groups.items()):
        scores = [row["final_return"] for row in group if row["final_return"] is not None]
        if not scores:
            print(f"{env:28} {mode:14} no score")
            continue
        count = len(scores)
        half = STUDENT[count] * statistics.stdev(scores) / count**0.5 if count in STUDENT else float("nan")
        known = [row["reward_correlation"] for row in group if row["reward_correlation"] is not None]
        correlation = f"  correlation {statistics.mean(known):.2f}" if known else ""
        print(f"{env:28} {mode:14} {statistics.mean(scores):9.1f} ± {half:7.1f}  {count} seeds, "
              f"{group[0]['timesteps']:,} steps, {statistics.median(row['seconds'] for row in group):.0f} s"
              f"{correlation}  {[round(score) for score in scores]}")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("speed").add_argument("--repeats", type=int, default=5)
    parts.add_parser("memory")
    asked = parts.add_parser("results")
    asked.add_argument("--env", choices=TASKS, default="Pendulum-v1")
    asked.add_argument("--seeds", type=int, default=5)
    asked.add_argument("--modes", nargs="+", choices=MODES, default=["rrd", "sac-episodic", "sac-dense"])
    asked.add_argument("--jobs", type=int, default=2)
    asked.add_argument("--out")
    asked.add_argument("--changes", default="{}", help="fields of the Spec, as JSON")
    parts.add_parser("table").add_argument("file")
    args = parser.parse_args()
    if args.part == "speed":
        return speed(args.repeats)
    if args.part == "memory":
        return memory()
    if args.part == "results":
        return results(args)
    table(read(args.file))
    return 0


if __name__ == "__main__":
    sys.exit(main())
