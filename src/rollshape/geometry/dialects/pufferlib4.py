"""PufferLib 4, whose keys are not those of PufferLib 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import Shuffle, TimeLimit
from rollshape.geometry.dialects.config import levels
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.pufferlib import PufferLib
from rollshape.geometry.dialects.recipe import HYPERPARAMETERS, Recipe
from rollshape.geometry.divisors import nearest_divisor, nearest_quotient
from rollshape.geometry.minibatch import Remainder, Split
from rollshape.geometry.values import POSITIVE, real_number

_AGENTS, _HORIZON, _REPLAY = "vec.total_agents", "train.horizon", "train.replay_ratio"
_ONLY_4 = (_AGENTS, _HORIZON, _REPLAY, "vec.num_buffers")
_ONLY_3 = (
    "vec.num_envs",
    "train.bptt_horizon",
    "train.batch_size",
    "train.update_epochs",
    "train.max_minibatch_size",
    "vec.num_workers",
)
_BARE_VEC, _BARE_TRAIN = ("total_agents",), ("bptt_horizon", "replay_ratio", "update_epochs", "max_minibatch_size")


class PufferLib4(Dialect):
    """Segments are sampled by priority, with replacement; `replay_ratio` × rollout samples are drawn per update.

    `total_agents` and all sizes are per GPU; `total_timesteps` counts those of all GPUs. The rollout size is
    total_agents × horizon and has no key.
    """

    name = "pufferlib4"
    library = "PufferLib PuffeRL"
    version = "4.0 (source of 2026, unreleased)"
    layout = "dotted"
    keys: ClassVar[tuple[Key, ...]] = (
        Key(_AGENTS, "num_envs", 4096),
        Key(_HORIZON, "num_steps", 64),
        Key("train.minibatch_size", "minibatch_size", 8192),
        Key(_REPLAY, EXTRA, 1.0),
        Key("train.gpus", EXTRA, 1),
        Key("train.total_timesteps", "total_timesteps", 10_000_000),
        *(key for key in PufferLib.keys if key.name.startswith("train.") and key.concept in HYPERPARAMETERS),
    )
    remainder = Remainder.DROP
    remainder_detail = (
        "samples floor(replay_ratio × rollout / minibatch) minibatches; there is no full pass over the data"
    )
    shuffle = Shuffle.PRIORITY
    time_limit = TimeLimit.IGNORED
    schedule = "cosine to zero (train.anneal_lr)"
    value_clip = "clipped (train.vf_clip_coef)"
    other_keys = frozenset({"num_buffers", "num_threads"})
    notes: ClassVar[tuple[str, ...]] = (
        "the optimizer is Muon: a learning rate for Adam is not transferable",
        "the last step of a segment has no advantage; rewards are clipped to ±1",
    )

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        n, t = self.required(sizes, "num_envs"), self.required(sizes, "num_steps")
        gpus, total = sizes.get("train.gpus") or 1, sizes.get("total_timesteps")
        per_gpu = None if total is None else total // gpus
        ratio = 1.0 if sizes.get(_REPLAY) is None else real_number(_REPLAY, sizes[_REPLAY], POSITIVE, 1.0)
        return self.recipe({**sizes, "total_timesteps": per_gpu, "num_epochs": max(1, round(ratio))}, n, t)

    def problem(self, recipe: Recipe) -> str:
        window = recipe.gae_window
        if recipe.refusal:
            return recipe.refusal
        if recipe.minibatch_size % window:
            return f"AssertionError: minibatch_size {recipe.minibatch_size} must be divisible by horizon {window}"
        if recipe.minibatch_size > recipe.rollout_size:
            return (
                f"AssertionError: minibatch_size {recipe.minibatch_size} > total_agents {recipe.num_envs} * horizon "
                f"{window}"
            )
        if self.steps_per_update(recipe) == 0:
            return f"replay_ratio {_ratio(recipe):g} of a rollout of {recipe.rollout_size} fills no minibatch"
        return ""

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        return super().emit(recipe) | {_REPLAY: float(recipe.num_epochs)}

    def adapt(self, recipe: Recipe) -> Recipe:
        """Adapt the minibatch to whole segments, which are the whole steps of an agent: there is one per rollout."""
        steps = recipe.num_steps
        segments = nearest_divisor(recipe.num_envs, max(1, nearest_quotient(recipe.minibatch_size, steps)))
        return self.with_split(recipe, segments * steps, recipe.num_envs // segments, steps)

    def epoch(self, recipe: Recipe) -> Split:
        return Split(
            recipe.rollout_size, recipe.minibatch_size, recipe.num_minibatches, recipe.minibatch_size,
            dropped=recipe.rollout_size % recipe.minibatch_size,
        )  # fmt: skip

    def steps_per_update(self, recipe: Recipe) -> int:
        return int(_ratio(recipe) * recipe.rollout_size / recipe.minibatch_size)


def _ratio(recipe: Recipe) -> float:
    return float(recipe.extra.get(_REPLAY) or recipe.num_epochs)


def pufferlib_version(config: Mapping[str, Any]) -> Literal[3, 4]:
    """Return the version of PufferLib that a config is for; raise a RequestError if its keys do not say."""
    here = {".".join(path[-2:]) for level, values in levels(config) for path in _paths(level, values)}
    named = {version: [name for name in names if name in here] for version, names in ((3, _ONLY_3), (4, _ONLY_4))}
    if bool(named[3]) == bool(named[4]):
        keys = f"it has {named[3][0]} (3.0) and {named[4][0]} (4.0)" if named[3] else "it has no key that only one has"
        raise RequestError(
            "other-dialect",
            f"The config may be of PufferLib 3.0 or of 4.0: {keys}.",
            f"4.0 has {', '.join(_ONLY_4[:3])}; 3.0 has {', '.join(_ONLY_3[:3])}. Add one of them, or use pufferlib4.",
        )
    return 4 if named[4] else 3


def _paths(level: tuple[str, ...], values: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the keys of a level with their section, which may be part of the name; some need none."""
    for name in (name for name in values if isinstance(name, str)):
        section = "train" if name in _BARE_TRAIN else "vec" if name in _BARE_VEC else level[-1] if level else ""
        yield tuple(name.split(".")) if "." in name else (section, name)
