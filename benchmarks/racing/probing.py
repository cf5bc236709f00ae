"""Probe the beginning of one run per task: what a predictor of progress may know about the task."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from racing.collect import commit, shorten
from racing.tasks import Task
from rollshape.files import write_bytes
from rollshape.gradients.intervals import estimate_squared_norm
from rollshape.gradients.windows import Windows
from rollshape.probes.collect import Stream, estimate_advantages, open_source
from rollshape.probes.context import draw_key, tail_steps
from rollshape.probes.measure import measure_step_norms, measure_windows, policy_view, policy_weights
from rollshape.probes.subject import Checkpoint, ProbedRun
from rollshape.studies.records import read_records
from rollshape.training.run import train
from rollshape.training.rundir import fingerprint

DATA = Path(__file__).parents[1] / "data" / "foresight"
SHAPE = (32, 32)  # in the middle of the shapes of every task
SEED = 1000  # of no run of the benchmark
CHECKPOINTS, PROBED = 20, (1, 2, 4)  # checkpoints per whole run, and which of them are probed: 5, 10 and 20 % of it
PROBE_ENVS, IMAGE_ENVS = 128, 32  # environments of the probe; fewer for convolutions, whose gradients are large


def collect_probe(task: Task, scratch: Path) -> None:
    """Train the first 20 % of one run, probe it and write the numbers."""
    num_envs, num_steps = SHAPE
    run = train(
        env=task.env, num_envs=num_envs, num_steps=num_steps, seed=SEED, total_timesteps=task.total_timesteps,
        keep_checkpoints=CHECKPOINTS, until=task.total_timesteps * PROBED[-1] // CHECKPOINTS, out=scratch / task.name,
        log_every=1, resume=True, **task.settings,
    )  # fmt: skip
    lengths = sorted({steps for _, steps in task.shapes})
    with ProbedRun(run.path) as probed:
        spacing = task.total_timesteps // (num_envs * num_steps * CHECKPOINTS)
        images = len(probed.checkpoint(spacing).env.observation.shape) > 1
        probe_envs = IMAGE_ENVS if images else PROBE_ENVS
        found = [probe_checkpoint(probed.checkpoint(spacing * i), lengths, probe_envs) for i in PROBED]
        parameters = len(found[0][1])
    directions = np.stack([gradient for _, gradient in found])
    [record] = read_records(run.path)
    document = {
        "task": task.name, "half": task.half, "num_envs": num_envs, "num_steps": num_steps, "seed": SEED,
        "probe_envs": probe_envs, "parameters": parameters, "learning_rate": record.spec.learning_rate,
        "gamma": record.spec.gamma, "gae_lambda": record.spec.gae_lambda,
        "approx_kl": shorten(median(record.values("approx_kl"))),
        "clip_fraction": shorten(median(record.values("clip_fraction"))),
        "products": [[shorten(float(x)) for x in row] for row in directions @ directions.T],
        "checkpoints": [numbers for numbers, _ in found], "commit": commit(), "versions": fingerprint(),
        "command": "python benchmarks/foresight.py collect",
    }  # fmt: skip
    DATA.mkdir(parents=True, exist_ok=True)
    lines = json.dumps(document, separators=(",", ":")).replace('{"num_steps"', '\n{"num_steps"') + "\n"
    write_bytes(DATA / f"{task.name}.json", lines.encode())


def probe_checkpoint(checkpoint: Checkpoint, lengths: list[int], num_envs: int) -> tuple[dict[str, Any], Any]:
    """Return the numbers of a checkpoint, and its reference gradient [P]."""
    source = open_source(checkpoint, num_envs, "stationary")
    try:
        stream = source.draw(max(lengths), tail_steps(checkpoint), draw_key(SEED, checkpoint.update, "long"))
        view = policy_view(source.policy)
        weights = policy_weights(checkpoint.estimator, stream, lengths)
        windows = measure_windows(view, stream, weights)
        norms = [float(measure_step_norms(view, stream, w).mean()) for w in weights]
    finally:
        source.close()
    reference = windows[-1].references
    signal = estimate_squared_norm(reference.gram)
    target = estimate_advantages(checkpoint.estimator, stream, lam=1.0)[1]
    numbers = {
        "update": checkpoint.update, "signal": [shorten(x) for x in (signal.value, signal.low, signal.high)],
        "return_variance": shorten(float(target.var())),
        "value_error": shorten(float(((target - np.asarray(stream.value)[:, : target.shape[1]]) ** 2).mean())),
        "lengths": [
            measure_length(w, norm, checkpoint, stream, target) for w, norm in zip(windows, norms, strict=True)
        ],
    }  # fmt: skip
    return numbers, reference.gradient


def measure_length(
    windows: Windows, step_norm: float, checkpoint: Checkpoint, stream: Stream, reference: Any
) -> dict[str, Any]:
    """Return what windows of T steps have: mean squares of steps and of windows, |G_T|², biases, value targets."""
    target = estimate_advantages(checkpoint.estimator, stream, windows.num_steps)[1]
    error = target - reference[:, : target.shape[1]]
    values = {
        "step_square": step_norm,
        "window_square": float(windows.window_norms.mean()),
        "squared_norm": estimate_squared_norm(windows.row_gram).value,
        "bias2": estimate_squared_norm(windows.bias_gram).value,
        "bias2_window": estimate_squared_norm(windows.window_bias_gram).value,
        "target_error": float((error**2).mean()),
        "target_bias2": float((error.mean(0) ** 2).mean()),
    }
    return {"num_steps": windows.num_steps, **{name: shorten(value) for name, value in values.items()}}
