"""What is known about a run that another library trained: its plan, settings and config. Does not import JAX.

Only what the config says, or what the library uses by default, is a setting of the run. Everything else stays unknown:
no value of ours is put in its place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import ParsedConfig, read
from rollshape.geometry.dialects.registry import DIALECTS, resolve
from rollshape.geometry.plan import Plan
from rollshape.training.trainer import UNKNOWN_ENV, Trainer

SETTINGS = (
    "learning_rate", "gamma", "gae_lambda", "clip_range", "entropy_coef", "value_coef", "max_grad_norm", "target_kl",
    "adaptive_kl",
)  # fmt: skip
NAMES = {
    "sb3": "Stable-Baselines3", "sbx": "sbx", "cleanrl": "CleanRL", "maniskill": "ManiSkill", "rl_games": "rl_games",
    "rsl_rl": "RSL-RL", "skrl": "skrl", "isaaclab": "Isaac Lab",
}  # fmt: skip
LONGEST_TEXT = 1_000  # characters of one value of a config that are kept
DEEPEST = 8  # levels of a config that are kept


@dataclass(frozen=True)
class RunDescription:
    """A run of another library.

    `settings` are fields of a Spec that are known. `assumed` are the keys that the config does not contain, with the
    library's default. `config` is the config as it was found, in the library's own keys.
    """

    trainer: Trainer
    env: str
    plan: Plan
    settings: Mapping[str, Any]
    assumed: Mapping[str, Any]
    config: Mapping[str, Any]

    def to_document(self) -> dict[str, Any]:
        """Return the entries of run.json that describe the run."""
        return {
            "trainer": self.trainer.to_dict(),
            "spec": {"env": self.env, **self.settings},
            "plan": self.plan.to_dict(),
            "assumed": plain(self.assumed),
            "config": plain(self.config),
        }


def describe(
    config: Mapping[str, Any],
    dialect: str,
    *,
    version: str | None = None,
    env: str | None = None,
    seed: int | None = None,
    num_envs: int | None = None,
    key: str | None = None,
    file: str | None = None,
) -> RunDescription:
    """Describe a run by the config of its library; a RequestError if the sizes are missing or not valid.

    Args:
        config: values in the keys of the library, with the budget under the library's own key.
        dialect: name of the dialect; `sb3` also selects `sb3:a2c` if the config is one of A2C.
        version: version of the library, if it is known.
        env: id of the environment, None if it is unknown.
        seed: the seed, None if it is unknown.
        num_envs: number of environments, if the config does not contain it.
        key: level of a nested config.
        file: path of the config, whose name may say which algorithm it is for.
    """
    library = resolve(dialect, config, key=key, file=file)
    parsed = read(config, library, num_envs=num_envs, key=key, candidates=DIALECTS, file=file)
    plan = predict(library, parsed.recipe)
    budget = {} if plan.total_timesteps is None else {"total_timesteps": plan.total_timesteps}
    return RunDescription(
        Trainer(NAMES.get(library.name.partition(":")[0], library.library), version, library.name),
        env or UNKNOWN_ENV,
        plan,
        {
            "algo": plan.algo,
            "num_envs": plan.num_envs,
            "num_steps": plan.num_steps,
            "minibatch_size": plan.minibatch_size,
            "num_epochs": plan.num_epochs,
            **budget,
            **({} if seed is None else {"seed": seed}),
            **{name: value for name, value in parsed.recipe.hyper.items() if name in SETTINGS},
        },
        _assumed(library, parsed),
        config,
    )


def _assumed(library: Dialect, parsed: ParsedConfig) -> dict[str, Any]:
    """Return the keys that the config does not contain and the library's defaults that are used for them."""
    defaults = {entry.partition(" ")[0] for entry in parsed.defaults}
    sizes = {key.name: key.default for key in library.shape_keys if key.name in defaults}
    hyper = {
        key.name: key.default
        for key in library.hyper_keys
        if key.name not in parsed.values and key.concept in parsed.recipe.hyper
    }
    return {**sizes, **hyper}


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON: numbers, text, lists and mappings stay, anything else becomes its text, cut short."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth < DEEPEST and isinstance(value, Mapping):
        return {str(name): plain(inner, depth + 1) for name, inner in value.items()}
    if depth < DEEPEST and isinstance(value, (list, tuple)):
        return [plain(inner, depth + 1) for inner in value]
    return str(value)[:LONGEST_TEXT]
