"""What a dialect is: names, units, defaults, and what its library does with them.

Most libraries are a table of keys. Where one counts in other units (trajectories, ranks, workers), its file overrides
`hear` (config values → sizes) and `say` (sizes → config values), and `adapt` where it cannot say every shape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import gcd
from typing import Any, ClassVar, Final, Literal, TypeGuard

from rollshape.errors import RequestError
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.divisors import nearest_divisor
from rollshape.geometry.minibatch import Remainder, Split, split, split_by_count


class Shuffle(StrEnum):
    EACH_EPOCH = "single transitions, reshuffled each epoch"
    AFTER_FIRST = "single transitions, reshuffled each epoch but the first"
    ONCE = "single transitions, shuffled once for all epochs"
    NONE = "no shuffle: contiguous blocks in a fixed order"
    BLOCKS = "contiguous blocks, only their order is shuffled"
    TRAJECTORIES = "whole trajectories, reshuffled each epoch"
    REPLAY = "drawn from a replay"
    PRIORITY = "segments drawn by advantage: no full pass over the data"


class Normalise(StrEnum):
    MINIBATCH = "per minibatch"
    ROLLOUT = "over the rollout"
    OFF = "not at all by default"


class TimeLimit(StrEnum):
    FINAL = "bootstraps from V of the final observation"
    CURRENT = "bootstraps from V(s_t), an approximation, where the environment reports it"
    TERMINAL = "counts as the end of the episode: no bootstrap"
    MASKED = "its step is masked out"
    IGNORED = "is not seen: the return runs on into the next episode"


NO_OFF: Final = object()


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a config: its name (`section.name` where it is nested), what it means, and its default.

    The value in Rollshape's words is `scale` × the value in the config.
    """

    name: str
    concept: str
    default: Any = None
    scale: float = 1
    aliases: tuple[str, ...] = ()
    off: Any = NO_OFF  # the value that means "none of it", where there is one (for a minibatch: the whole rollout)

    @property
    def leaf(self) -> str:
        return self.name.rpartition(".")[2]


SHAPE_CONCEPTS = frozenset(
    {
        "num_envs", "workers", "envs_per_worker", "num_steps", "rollout_size", "minibatch_size", "num_minibatches",
        "trajectories", "minibatch_per_env", "num_epochs", "total_timesteps", "num_updates", "vector_steps",
        "transition_batch_size", "train_batches", "steps_per_iteration", "rrd_batch_size", "rrd_sample_size",
    }
)  # fmt: skip
OVERRIDE = "num_envs that the caller gave"  # beside the concepts that `hear` is told
EXTRA = "extra"  # a key that is read or written for its effect on the shape, with no counterpart elsewhere


class Dialect:
    """A library's way to spell a rollout shape; subclasses fill in the class variables."""

    name: ClassVar[str]
    library: ClassVar[str]
    version: ClassVar[str]  # what the facts were read from
    keys: ClassVar[tuple[Key, ...]]
    remainder: ClassVar[Remainder]
    remainder_detail: ClassVar[str]
    rounds_up: ClassVar[bool] = False
    shuffle: ClassVar[Shuffle] = Shuffle.EACH_EPOCH
    normalise: ClassVar[Normalise] = Normalise.MINIBATCH
    time_limit: ClassVar[TimeLimit]
    schedule: ClassVar[str] = "constant unless configured"  # of the learning rate, by default
    value_clip: ClassVar[str] = "not clipped unless configured"  # the value loss, by default
    peculiar: ClassVar[tuple[str, ...]] = ()  # what its training does and no other library's can be told to
    prefix: ClassVar[str] = ""  # the section in which a file has all keys of the library
    mendable: ClassVar[frozenset[str]] = frozenset()  # extras that `fit` may change to make a config legal
    layout: ClassVar[Literal["flat", "dotted", "nested"]] = "flat"
    fixed: ClassVar[Mapping[str, float]] = {}  # hyperparameters that are not a key but a fact
    others: ClassVar[frozenset[str]] = frozenset()  # keys of the library that look like a misspelt shape key
    rollout_name: ClassVar[str] = "rollout_size"  # what its users call N·T
    notes: ClassVar[tuple[str, ...]] = ()  # what a translation to this library should know

    @property
    def shape_keys(self) -> tuple[Key, ...]:
        return tuple(key for key in self.keys if key.concept in SHAPE_CONCEPTS)

    @property
    def hyper_keys(self) -> tuple[Key, ...]:
        return tuple(key for key in self.keys if key.concept not in SHAPE_CONCEPTS and key.concept != EXTRA)

    @property
    def says_count(self) -> bool:
        """Whether the config holds the number of minibatches rather than their size."""
        concepts = {key.concept for key in self.keys}
        return "num_minibatches" in concepts and "minibatch_size" not in concepts

    # Config values → recipe

    def hear(self, said: Mapping[str, Any]) -> Recipe:
        """Sizes from what was said, by concept (extras by key name); defaults are filled in."""
        n = self.required(said, "num_envs")
        if said.get("num_steps") is not None:
            return self.recipe(said, n, int(said["num_steps"]))
        rollout = self.required(said, "rollout_size")
        refusal = f"a rollout of {rollout:,} is not a multiple of {n:,} environments" if rollout % n else ""
        return self.recipe(said, n, max(1, round(rollout / n)), refusal)

    def recipe(self, said: Mapping[str, Any], n: int, t: int, refusal: str = "") -> Recipe:
        """The recipe of N × T with the minibatch, the epochs and the budget that were said."""
        rollout, size, count = n * t, said.get("minibatch_size"), said.get("num_minibatches")
        if size is None and (count or 1) > rollout:
            refusal, count = f"{count:,} minibatches of a rollout of {rollout:,} samples would be empty", rollout
        if size is None:
            size = rollout // (count or 1)
        drafted = Recipe(
            num_envs=n,
            num_steps=t,
            minibatch_size=size,
            num_minibatches=count if self.says_count and count else max(1, rollout // size),
            num_epochs=said.get("num_epochs") or 1,
            gae_window=t,
            refusal=refusal,
            extra={key.name: said[key.name] for key in self.keys if key.concept == EXTRA and key.name in said},
        )
        return self.with_budget(said, drafted)

    def with_budget(self, said: Mapping[str, Any], drafted: Recipe) -> Recipe:
        rollout = drafted.rollout_size
        if said.get("num_updates") is not None:
            updates = int(said["num_updates"])
            return replace(drafted, total_timesteps=updates * rollout, num_updates=updates)
        total = said.get("total_timesteps")
        if said.get("vector_steps") is not None:
            total = int(said["vector_steps"]) * drafted.num_envs
        if total is None:
            return drafted
        return replace(drafted, total_timesteps=total, num_updates=self.updates(total, rollout))

    def required(self, said: Mapping[str, Any], concept: str) -> int:
        value = said.get(concept)
        if value is None:
            names = " or ".join(key.name for key in self.keys if key.concept == concept)
            flag = ", or give --num-envs" if concept == "num_envs" else ""
            raise RequestError("missing-key", f"The {self.name} config does not say {concept}.", f"Add {names}{flag}.")
        return int(value)

    # Recipe → config values

    def say(self, recipe: Recipe) -> dict[str, Any]:
        """Values by concept (extras by key name): the inverse of `hear` for every recipe that `adapt` returns."""
        total, updates = self.budget(recipe), recipe.num_updates
        return {
            "num_envs": recipe.num_envs,
            "num_steps": recipe.num_steps,
            "rollout_size": recipe.rollout_size,
            "minibatch_size": recipe.minibatch_size,
            "num_minibatches": recipe.num_minibatches,
            "num_epochs": recipe.num_epochs,
            "total_timesteps": total,
            "num_updates": updates,
            "vector_steps": self._vector_steps(recipe, total),
        }

    def budget(self, recipe: Recipe) -> int | None:
        """The asked budget where this library makes the same number of updates of it, else the exact one."""
        total, updates, rollout = recipe.total_timesteps, recipe.num_updates, recipe.rollout_size
        if updates is None:
            return None
        if total is not None and self.updates(total, rollout) == updates:
            return total
        return self.exact_budget(updates, rollout)

    def least_budget(self, recipe: Recipe) -> int:
        """The smallest budget that makes an update."""
        return self.exact_budget(1, recipe.rollout_size)

    def exact_budget(self, updates: int, rollout: int) -> int:
        """The environment steps of which this library makes just so many updates."""
        return updates * rollout

    def _vector_steps(self, recipe: Recipe, total: int | None) -> int | None:
        if total is None or recipe.num_updates is None:
            return None
        steps, rest = divmod(total, recipe.num_envs)
        return recipe.num_updates * recipe.num_steps if rest else steps

    # Hyperparameters

    def hear_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Hyperparameters by concept, from values by key name; the library's defaults are filled in."""
        heard = dict(self.fixed)
        for key in self.hyper_keys:
            value = values.get(key.name, key.default)
            if is_number(value) and value != key.off and not (key.concept == "max_grad_norm" and value == math.inf):
                heard[key.concept] = _clean(key.scale * in_range(key, value))
        return heard

    def say_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        """Values by key name, from hyperparameters by concept; None is left out unless it switches something off."""
        said = {key.name: _clean(hyper[key.concept] / key.scale) for key in self.hyper_keys if key.concept in hyper}
        for key in self.hyper_keys:  # what the source does not do is switched off, or else shown as it applies
            if key.concept not in hyper and key.concept != "adaptive_kl":  # (a schedule switches that)
                said |= {key.name: key.default if key.off is NO_OFF else key.off}
        return said

    # What the library does

    def adapt(self, recipe: Recipe) -> Recipe:
        """The nearest recipe that the library can say: rollout_size stays, then minibatch_size, then epochs."""
        rollout, size = recipe.rollout_size, min(recipe.minibatch_size, recipe.rollout_size)
        count = max(1, rollout // size)
        if rollout // recipe.num_minibatches == size:
            count = recipe.num_minibatches  # said as a number of minibatches, which may leave more than one over
        elif rollout // count != size and size / (rollout // (count + 1)) < (rollout // count) / size:
            count += 1  # the next number of minibatches comes nearer to the size
        if self.remainder is Remainder.REFUSE:
            size = nearest_divisor(rollout, size)
            count = rollout // size
        if self.says_count:
            size = rollout // count
        return self.adapted(recipe, size, count, recipe.num_steps)

    def adapted(self, recipe: Recipe, size: int, count: int, window: int) -> Recipe:
        """The recipe with another cut, and nothing left of what only its first dialect knew."""
        return replace(recipe, minibatch_size=size, num_minibatches=count, gae_window=window, extra={}, refusal="")

    def adapted_to_windows(self, recipe: Recipe) -> Recipe:
        """For libraries whose minibatches hold whole windows: the window must divide both M and T."""
        size = nearest_divisor(recipe.rollout_size, min(recipe.minibatch_size, recipe.rollout_size))
        window = gcd(size, recipe.num_steps, recipe.gae_window)
        return self.adapted(recipe, size, recipe.rollout_size // size, window)

    def epoch(self, recipe: Recipe) -> Split:
        """The minibatches that the library makes of a rollout in one epoch."""
        if self.says_count:
            return split_by_count(recipe.rollout_size, recipe.num_minibatches, self.remainder)
        return split(recipe.rollout_size, recipe.minibatch_size, self.remainder)

    def steps_per_update(self, recipe: Recipe) -> int:
        """Optimiser steps on one rollout."""
        return recipe.num_epochs * self.epoch(recipe).num_minibatches

    def updates(self, total: int, rollout: int) -> int:
        """Rollouts that a budget of environment steps buys."""
        return -(-total // rollout) if self.rounds_up else total // rollout

    def problem(self, recipe: Recipe) -> str:
        """Why the library refuses the recipe, in its own words where it has any; empty if it takes it."""
        if recipe.refusal:
            return recipe.refusal
        if self.remainder is Remainder.REFUSE and recipe.rollout_size % recipe.minibatch_size:
            return self.remainder_detail.format(rollout=recipe.rollout_size, minibatch=recipe.minibatch_size)
        return ""


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_RANGES = {"gamma": (0, 1), "gae_lambda": (0, 1), "entropy_coef": (-math.inf, math.inf), "value_coef": (0, math.inf)}


def in_range(key: Key, value: float) -> float:
    """A hyperparameter that can be meant, or a RequestError that names the key."""
    low, high = _RANGES.get(key.concept, (math.ulp(0.0), math.inf))
    if not (low <= value <= high and math.isfinite(value)):
        default = f" {key.name} is {key.default} by default." if key.default is not None else ""
        raise RequestError(
            "number-range", f"{key.name} {value!r} cannot be a {key.concept}.", f"Check {key.name}.{default}"
        )
    return value


def _clean(value: float) -> float:
    """Without the last bits that a scale and its inverse leave behind: 0.019999999999999997 → 0.02."""
    return float(f"{value:.12g}")
