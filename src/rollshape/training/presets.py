"""Tuned settings by algorithm and environment, with their source."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.algorithms import Algo
from rollshape.training.spec import Spec

ANY_ENV = "*"
_ZOO = "rl-baselines3-zoo 2.9.2, hyperparams/ppo.yml"


@dataclass(frozen=True)
class Preset:
    """Fields of a Spec, their source, and what of the source could not be kept."""

    settings: dict[str, Any]
    source: str
    not_kept: str = ""


PRESETS: dict[tuple[Algo, str], Preset] = {
    ("ppo", "CartPole-v1"): Preset(
        {
            "num_envs": 8, "num_steps": 32, "minibatch_size": 256, "num_epochs": 20, "gae_lambda": 0.8, "gamma": 0.98,
            "learning_rate": 1e-3, "anneal_lr": True, "total_timesteps": 100_000,
        },
        _ZOO,
        "the linear schedule of the clip range",
    ),
    ("ppo", "Pendulum-v1"): Preset(
        {
            "num_envs": 4, "num_steps": 1024, "minibatch_size": 64, "num_epochs": 10, "gae_lambda": 0.95, "gamma": 0.9,
            "learning_rate": 1e-3, "total_timesteps": 100_000,
        },
        _ZOO,
        "state-dependent exploration (use_sde)",
    ),
    ("ppo", "Acrobot-v1"): Preset(
        {
            "num_envs": 16, "num_steps": 256, "minibatch_size": 64, "num_epochs": 4, "gae_lambda": 0.94,
            "normalize_observations": True, "normalize_rewards": True, "total_timesteps": 1_000_000,
        },
        _ZOO,
    ),
    ("ppo", "MountainCar-v0"): Preset(
        {
            "num_envs": 16, "num_steps": 16, "minibatch_size": 64, "num_epochs": 4, "gae_lambda": 0.98,
            "normalize_observations": True, "normalize_rewards": True, "total_timesteps": 1_000_000,
        },
        _ZOO,
    ),
    ("rrd", ANY_ENV): Preset(
        {
            "rrd_preset": "rrd-paper", "hidden_sizes": (256, 256), "learning_rate": 3e-4, "gamma": 0.99,
            "polyak": 0.995, "total_timesteps": 3_000_000,
        },
        "Ren et al. 2022, its MuJoCo experiments",
    ),
}  # fmt: skip


def with_preset(spec: Spec) -> tuple[Spec, Preset]:
    """Return the spec with the preset of its algorithm and environment in every field that still has its default."""
    preset = PRESETS.get((spec.algo, spec.env)) or PRESETS.get((spec.algo, ANY_ENV))
    if preset is None:
        known = "; ".join(f"{algo} on {'any environment' if env == ANY_ENV else env}" for algo, env in PRESETS)
        raise RequestError("choice", f"There is no preset for {spec.algo} on {spec.env}.", f"Presets: {known}.")
    defaults = {field.name: field.default for field in fields(Spec)}
    unchanged = {name: value for name, value in preset.settings.items() if getattr(spec, name) == defaults[name]}
    return replace(spec, **unchanged), preset
