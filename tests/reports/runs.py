"""Run directories as `train` leaves them, made up: scores that rise to a given end, and probes of a given surface."""

from pathlib import Path
from typing import Any

import numpy as np

from rollshape.probes.quantities.cosine_maps import CosineMap, new_cosine_map
from rollshape.training.rundir import RunDirectory
from rollshape.training.spec import Spec

ROWS = 20


def spec_of(num_envs: int, seed: int = 0, **more: Any) -> Spec:
    fields = {"rollout_size": 2048, "num_minibatches": 4, "total_timesteps": 2048 * 40, **more}
    return Spec(num_envs=num_envs, seed=seed, **fields)


def write_run(path: Path, spec: Spec, end: float, status: str = "done", *, start: float = 20.0, **metrics: Any) -> Path:
    """Scores rise from `start` to `end` in the first half, with a little noise of the seed's own."""
    plan, directory = spec.plan(), RunDirectory(path)
    path.mkdir(parents=True)
    chance = np.random.default_rng([spec.seed, plan.num_envs])
    final = end + float(chance.normal(0, 5))
    summary = {"final_return": final if status == "done" else None, "timesteps": plan.actual_timesteps}
    directory.write({"spec": spec.to_dict(), "plan": plan.to_dict(), "versions": {"jax": "1"}, "status": status,
                     "summary": summary})  # fmt: skip
    updates = plan.num_updates or 0
    for i, update in enumerate(np.unique(np.linspace(1, updates, ROWS).round().astype(int))):
        share = min(1.0, 2 * i / ROWS)
        score = start + share * (final - start) + float(chance.normal(0, 1))
        row = {
            "update": int(update), "timesteps": int(update) * plan.rollout_size, "wall_time": 1.0, "eval_return": score,
            "episodic_return": score, "episodic_length": 100.0, "policy_loss": -0.01, "value_loss": 1.0, "entropy": 1.0,
            "approx_kl": 0.01, "clip_fraction": 0.1, "ratio_ess": 0.97, "grad_norm": 0.5, "reset_phase_entropy": 0.95,
            "approx_kl_epochs": [0.01], "ratio_ess_epochs": [0.97], "explained_variance": 0.8, "learning_rate": 3e-4,
            "success_rate": None, "rollout_s": None, "update_s": None, "sps": 10_000,
        }  # fmt: skip
        directory.append(row | {name: each(share) if callable(each) else each for name, each in metrics.items()})
    return path


def folder_of(path: Path, ends: dict[int, float], seeds: int = 12, **more: Any) -> Path:
    """Runs of several numbers of environments, each with its end."""
    for num_envs, end in ends.items():
        for seed in range(seeds):
            write_run(path / f"{num_envs}-{seed}", spec_of(num_envs, seed, **more), end)
    return path


def probe_document(errors: dict[int, tuple[float, float]], horizon: float | None = 10.0) -> dict[str, Any]:
    """Of a surface given as T → (variance, bias²) at a rollout of 2,048."""
    ends = [0.5, 2.0]
    names = ("total", "individual", "covariance")
    surface = [
        {"num_envs": 2048 // steps, "num_steps": steps, "variance": variance, "bias2": bias2, "mse": variance + bias2,
         "score": variance + bias2, "ci": {"variance": [variance / 2, variance * 2]}}
        for steps, (variance, bias2) in errors.items()
    ]  # fmt: skip
    return {
        "update": 20, "command": "rollshape probe RUN_DIR", "surface": surface, "sizes": {},
        "geometry": {"num_envs": 32, "num_steps": 64},
        "variance": {**dict.fromkeys(names, 1.0), "ci": dict.fromkeys(names, ends)},
        "effective_sample_size": 900.0, "effective_sample_size_ci": [800.0, 1000.0],
        "bias": {name: {"squared": 0.1, "relative": None, "ci": ends} for name in ("window", "estimator", "total")},
        "noise_scale": {"clustered": None, "ci": {"clustered": [1000.0, None]}},
        "horizon": {"value": horizon, "low": None, "high": None},
        "pictures": [cosine_map(2, 4).to_dict(), cosine_map(4, 2).to_dict()],
    }  # fmt: skip


def cosine_map(num_envs: int, num_steps: int) -> CosineMap:
    """Cosines of random directions: batch 0 with batches 0 … 4."""
    steps = np.random.default_rng(0).normal(size=(5, num_envs * num_steps, 3))
    steps /= np.linalg.norm(steps, axis=-1, keepdims=True)
    return new_cosine_map(num_envs, num_steps, np.einsum("ip,kjp->kij", steps[0], steps))
