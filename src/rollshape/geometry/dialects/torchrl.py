"""The PPO and A2C scripts of TorchRL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import CONSTANT_RATE, LINEAR_RATE, Switch, TimeLimit
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.minibatch import Remainder

_ATARI_SKIP = 4  # hard-coded in the Atari scripts
_ENV, _SKIP = "env.env_name", "env.frame_skip"
_FRAMES = ("rollout_size", "minibatch_size", "total_timesteps")


class TorchRL(Dialect):
    """`frames_per_batch` is the rollout size; the steps per environment are derived from it.

    The Atari scripts count emulator frames: they divide frames_per_batch, mini_batch_size and total_frames by 4.
    """

    name = "torchrl"
    library = "TorchRL sota-implementations/ppo"
    version = "0.14.1"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("env.num_envs", "num_envs", 1),
        Key("collector.frames_per_batch", "rollout_size", 2048),
        Key("loss.mini_batch_size", "minibatch_size", 64),
        Key("loss.ppo_epochs", "num_epochs", 10),
        Key("collector.total_frames", "total_timesteps", 1_000_000),
        Key(_ENV, EXTRA),
        Key(_SKIP, EXTRA, whole=True),
        Key("optim.lr", "learning_rate", 3e-4),
        Key("loss.gamma", "gamma", 0.99),
        Key("loss.gae_lambda", "gae_lambda", 0.95),
        Key("loss.clip_epsilon", "clip_range", 0.2),
        Key("loss.entropy_coeff", "entropy_coef", 0.0, aliases=("entropy_coef",)),
        Key("loss.critic_coeff", "value_coef", 0.25, aliases=("critic_coef",)),
        Key("optim.max_grad_norm", "max_grad_norm"),
    )
    remainder = Remainder.REFUSE
    remainder_detail = "IndexError: the loss table of the scripts has no row for a smaller last minibatch"
    rounds_up = True
    time_limit = TimeLimit.FINAL
    schedule = "linear to zero (optim.anneal_lr)"
    switches: ClassVar[tuple[Switch, ...]] = (
        Switch("optim.anneal_lr", "learning-rate schedule", {True: LINEAR_RATE, False: CONSTANT_RATE}),
    )
    algorithm_hints = ("logger.project_name",)
    algorithm_folders = True
    algorithm_names: ClassVar[frozenset[str]] = Dialect.algorithm_names | {"rnd"}
    notes: ClassVar[tuple[str, ...]] = (
        "GAE is recomputed each epoch",
        "only the Atari script has the key max_grad_norm",
    )

    def infer_algorithm(self, level: Mapping[str, Any]) -> tuple[str, str] | None:
        if isinstance(level.get("trainer"), Mapping):
            raise RequestError(
                "other-dialect",
                "The config is for the Trainer classes of TorchRL (section trainer), which name their sizes otherwise.",
                "Give the config of a script such as sota-implementations/ppo.",
            )
        return None

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        skip = _frame_skip(sizes)
        frames = {name: max(1, sizes[name] // skip) for name in _FRAMES if sizes.get(name) is not None}
        return super().parse({**sizes, **frames})

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        sizes, skip = super().emit(recipe), _frame_skip(recipe.extra)
        sizes |= {name: sizes[name] * skip for name in _FRAMES if sizes[name] is not None}
        return sizes | {name: value for name, value in recipe.extra.items() if value is not None}

    def adapt(self, recipe: Recipe) -> Recipe:
        return replace(super().adapt(recipe), extra={name: recipe.extra.get(name) for name in (_ENV, _SKIP)})


class TorchRLA2C(TorchRL):
    """One pass over the rollout in minibatches of `mini_batch_size`; a short last minibatch is trained."""

    name = "torchrl:a2c"
    library = "TorchRL sota-implementations/a2c"
    algo = "a2c"
    algorithm = "A2C"
    algorithm_names: ClassVar[frozenset[str]] = frozenset({"a2c"})
    keys: ClassVar[tuple[Key, ...]] = tuple(
        replace(key, default=640 if key.concept == "rollout_size" else key.default)
        for key in TorchRL.keys
        if key.concept not in ("num_epochs", "clip_range")
    )
    remainder = Remainder.SHORT
    remainder_detail = "trains on a smaller last minibatch"
    notes: ClassVar[tuple[str, ...]] = ("only the Atari script has the keys num_envs and max_grad_norm",)

    def adapt(self, recipe: Recipe) -> Recipe:
        return replace(super().adapt(recipe), num_epochs=1)


def _frame_skip(values: Mapping[str, Any]) -> int:
    """Return the emulator frames per step: an Atari environment has four, unless the config says otherwise."""
    return values.get(_SKIP) or (_ATARI_SKIP if str(values.get(_ENV) or "").startswith("ALE/") else 1)
