"""Compare the surface predicted by one probe with independent batches collected at every shape.

Run: .venv/bin/python benchmarks/probe.py [environment …] [--batches 64]
Early, middle and late in training: 10, 50 and 100 % of the updates. A ratio is predicted/collected variance; its 95 %
interval includes the uncertainty of the probe's environments and of the collected batches.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from rollshape.gradients.surface import surface
from rollshape.gradients.variance import empirical_variance
from rollshape.probes import measure
from rollshape.probes.batches import collect_batches
from rollshape.probes.collect import open_source
from rollshape.probes.subject import Checkpoint
from rollshape.training import checkpoint
from rollshape.training.run import train
from rollshape.training.setup import open_run, use_compilation_cache
from rollshape.training.streams import stream_key

RUNS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"num_envs": 64, "num_steps": 32, "total_timesteps": 204_800},
    "FrozenLake-v1": {"num_envs": 64, "num_steps": 32, "total_timesteps": 204_800, "learning_rate": 3e-3},
    "Pendulum-v1": {"num_envs": 64, "num_steps": 32, "total_timesteps": 409_600, "gamma": 0.95, "learning_rate": 1e-3},
    "gymnax:Breakout-MinAtar": {"num_envs": 64, "num_steps": 32, "total_timesteps": 512_000, "learning_rate": 1e-3},
}
SIZE, LENGTHS = 2048, (2, 8, 32, 128, 256)
LONGER = (16, 32, 64, 128, 256)  # where an independent window costs thousands of steps of burn-in
PROBE_ENVS, POOL, TAIL = 256, 2048, 0


def main(environments: list[str], count: int) -> None:
    use_compilation_cache()
    print("| environment | update | return | N×T | predicted | collected | ratio | 95 % | |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    inside = total = 0
    for name in environments:
        with tempfile.TemporaryDirectory() as folder:
            run = train(env=name, out=Path(folder) / "run", keep_checkpoints=10, **RUNS[name])
            driver, like = open_run(run.path)
            kept = checkpoint.stored(run.path / "checkpoints")
            for place in (1, len(kept) // 2, len(kept) - 1):
                state = checkpoint.load(kept[place], like).state
                update = checkpoint.update_of(kept[place])
                score = driver.score(state, 0, 128).mean
                for row, ok in compare(Checkpoint(driver, state), count):
                    print(f"| {name} | {update} | {score:.1f} | {row} |", flush=True)
                    inside, total = inside + ok, total + 1
    print(f"\n{inside} of {total} intervals contain a ratio of 1; {count} batches per shape.")


def compare(checkpoint: Checkpoint, count: int) -> list[tuple[str, bool]]:
    """Return a line per shape, and whether its interval contains 1."""
    key, rng = stream_key(1, "probe", checkpoint.update), np.random.default_rng(checkpoint.update)
    source, estimator = open_source(checkpoint, PROBE_ENVS, "stationary"), checkpoint.estimator
    view = measure.policy_view(source.policy)
    lengths = LONGER if "MinAtar" in checkpoint.spec.env else LENGTHS
    stream = source.draw(max(lengths), TAIL, key)
    windows = measure.measure_windows(view, stream, measure.policy_weights(estimator, stream, lengths))
    lines = []
    for i, point in enumerate(surface(SIZE, windows, rng)):
        started = time.perf_counter()
        pool = open_source(checkpoint, min(POOL, count * point.num_envs), "stationary")
        batch_key = jax.random.fold_in(key, i + 1)
        batches = collect_batches(pool, estimator, view, point.num_envs, point.num_steps, count, batch_key)
        collected = empirical_variance(batches.gradients)
        error = np.hypot(*(np.log(estimate.high / estimate.low) / 2 for estimate in (point.variance, collected)))
        ratio = point.variance.value / collected.value
        low, high = ratio * np.exp(-error), ratio * np.exp(error)
        ok = bool(low <= 1 <= high)
        shape = f"{point.num_envs}×{point.num_steps}"
        lines.append(
            (f"{shape} | {point.variance.value:.3g} | {collected.value:.3g} | {ratio:.2f} | {low:.2f} … {high:.2f} | "
             f"{'' if ok else 'off'}", ok)
        )  # fmt: skip
        print(f"{shape}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    return lines


if __name__ == "__main__":
    arguments = sys.argv[1:]
    count = int(arguments[arguments.index("--batches") + 1]) if "--batches" in arguments else 64
    main([name for name in arguments if name in RUNS] or list(RUNS), count)
