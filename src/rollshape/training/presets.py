"""Settings that others tuned, by environment, with their source."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from rollshape.errors import RequestError
from rollshape.training.spec import Spec

_ZOO = "rl-baselines3-zoo 2.9.2, hyperparams/ppo.yml"


@dataclass(frozen=True)
class Preset:
    """Fields of a Spec, where they come from, and what of the source could not be kept."""

    settings: dict[str, Any]
    source: str
    not_kept: str = ""


PRESETS = {
    "CartPole-v1": Preset(
        {
            "num_envs": 8, "num_steps": 32, "minibatch_size": 256, "num_epochs": 20, "gae_lambda": 0.8, "gamma": 0.98,
            "learning_rate": 1e-3, "anneal_lr": True, "total_timesteps": 100_000,
        },
        _ZOO,
        "the clip range falls linearly, too",
    ),
    "Pendulum-v1": Preset(
        {
            "num_envs": 4, "num_steps": 1024, "minibatch_size": 64, "num_epochs": 10, "gae_lambda": 0.95, "gamma": 0.9,
            "learning_rate": 1e-3, "total_timesteps": 100_000,
        },
        _ZOO,
        "state-dependent exploration (use_sde)",
    ),
    "Acrobot-v1": Preset(
        {
            "num_envs": 16, "num_steps": 256, "minibatch_size": 64, "num_epochs": 4, "gae_lambda": 0.94,
            "normalize_observations": True, "normalize_rewards": True, "total_timesteps": 1_000_000,
        },
        _ZOO,
    ),
    "MountainCar-v0": Preset(
        {
            "num_envs": 16, "num_steps": 16, "minibatch_size": 64, "num_epochs": 4, "gae_lambda": 0.98,
            "normalize_observations": True, "normalize_rewards": True, "total_timesteps": 1_000_000,
        },
        _ZOO,
    ),
}  # fmt: skip

RRD = Preset(
    {"rrd_preset": "rrd-paper", "hidden_sizes": (256, 256), "learning_rate": 3e-4, "gamma": 0.99, "polyak": 0.995,
     "total_timesteps": 3_000_000},
    "Ren et al. 2022, its MuJoCo experiments",
)  # fmt: skip


def with_preset(spec: Spec) -> tuple[Spec, Preset]:
    """The spec with the preset of its environment, or of RRD, in every field that still has its default."""
    if spec.algo != "rrd" and (spec.env not in PRESETS or spec.algo != "ppo"):
        raise RequestError(
            "choice",
            f"There is no preset for {spec.algo} on {spec.env}.",
            f"PPO has them for {', '.join(PRESETS)}; RRD has its paper's everywhere.",
        )
    preset = RRD if spec.algo == "rrd" else PRESETS[spec.env]
    defaults = {field.name: field.default for field in fields(Spec)}
    untouched = {name: value for name, value in preset.settings.items() if getattr(spec, name) == defaults[name]}
    return replace(spec, **untouched), preset
