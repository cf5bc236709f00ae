"""Run directories as `train` leaves them, made up: scores that rise to a given end, and probes of a given surface."""

from pathlib import Path
from typing import Any

import numpy as np

from rollshape.gradients.bias import Bias
from rollshape.gradients.intervals import Estimate
from rollshape.gradients.noise_scale import NoiseScale, NoiseScales
from rollshape.gradients.surface import Point
from rollshape.gradients.variance import Variance
from rollshape.probes.quantities.cosine_maps import CosineMap, new_cosine_map
from rollshape.probes.quantities.horizon import Horizon
from rollshape.probes.result import Geometry, Probe
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
    return make_probe(errors, horizon).to_dict(cosine_maps=True)


def make_probe(errors: dict[int, tuple[float, float]], horizon: float | None = 10.0) -> Probe:
    """A probe of a run of 32×64 without a signal, that measured only what every probe measures, and cosines."""
    one = Estimate(1.0, 0.5, 2.0)
    no_signal = NoiseScale(None, 1000.0, None, "no signal")
    return Probe(
        run_dir="RUN_DIR", update=20, timesteps=20 * 2048, command="rollshape probe RUN_DIR",
        geometry=Geometry(
            num_envs=32, num_steps=64, minibatch_size=512, rollout_size=2048, probe_envs=256, probe_steps=1024,
            tail_steps=512, num_batches=0, start="stationary", burn_in=None, seed=0, algo="ppo", gamma=0.99,
            gae_lambda=0.95, advantages="raw", reference="long rollout", left_out=(),
        ),
        variance=Variance(
            num_envs=32, num_steps=64, total=one, individual=one, covariance=one, squared_norm=one, step_variance=one,
            correlation_time=one, effective_sample_size=Estimate(900.0, 800.0, 1000.0), autocorrelation=(one,),
            effective_envs=200.0,
        ),
        noise_scale=NoiseScales(no_signal, no_signal, no_signal),
        bias={name: Bias(Estimate(0.1, 0.5, 2.0), None, "no signal") for name in ("window", "estimator", "total")},
        horizon=Horizon(horizon, None, None, "none" if horizon is None else "measured"),
        surface=[surface_point(steps, variance, bias2) for steps, (variance, bias2) in errors.items()],
        cosine_maps=[cosine_map(2, 4), cosine_map(4, 2)],
        minibatch=None, collected=None, cosine=None, sizes=None, critic=None, noises=None, reset_phase=None,
    )  # fmt: skip


def surface_point(steps: int, variance: float, bias2: float) -> Point:
    values = {"variance": variance, "bias2": bias2, "bias2_window": bias2, "mse": variance + bias2}
    estimates = {name: Estimate(value, value / 2, value * 2) for name, value in values.items()}
    return Point(2048 // steps, steps, **estimates, score=estimates["mse"])


def cosine_map(num_envs: int, num_steps: int) -> CosineMap:
    """Cosines of random directions: batch 0 with batches 0 … 4."""
    steps = np.random.default_rng(0).normal(size=(5, num_envs * num_steps, 3))
    steps /= np.linalg.norm(steps, axis=-1, keepdims=True)
    return new_cosine_map(num_envs, num_steps, np.einsum("ip,kjp->kij", steps[0], steps))
