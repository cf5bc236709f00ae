"""Dialects: the names, units and defaults of a library's config, and what the library does with them.

Most libraries are a table of keys. If a library counts in other units (trajectories, ranks, workers), its file
overrides `parse` (config values → recipe) and `emit` (recipe → config values), and `adapt` if it cannot express every
shape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import gcd
from typing import Any, ClassVar, Literal

from rollshape.errors import RequestError
from rollshape.geometry.algorithms import Algo
from rollshape.geometry.dialects.behaviors import CONSTANT_RATE, UNCLIPPED, Normalization, Shuffle, Switch, TimeLimit
from rollshape.geometry.dialects.keys import EXTRA, NO_OFF, SHAPE_CONCEPTS, Key, check_range, is_number
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sharing import Agents, Ranks, Recurrence, sequence_length, with_whole_sequences
from rollshape.geometry.divisors import nearest_divisor, nearest_quotient
from rollshape.geometry.minibatch import Remainder, Split, split, split_by_count
from rollshape.geometry.values import whole_number

_PPO = frozenset({"ppo", "recurrentppo", "ppolstm", "ppornn", "recppo"})  # with any network


class Dialect:
    """How a library configures a rollout shape; subclasses set the class variables."""

    name: ClassVar[str]
    library: ClassVar[str]
    version: ClassVar[str]  # of the library's source that was read
    proof: ClassVar[str] = ""  # file in tests/peers that trains with the library and compares its counts with ours
    keys: ClassVar[tuple[Key, ...]]
    remainder: ClassVar[Remainder]
    remainder_detail: ClassVar[str]
    rounds_up: ClassVar[bool] = False
    stops_at_first: ClassVar[bool] = False  # of a limit on updates and one on timesteps
    shuffle: ClassVar[Shuffle] = Shuffle.EACH_EPOCH
    normalization: ClassVar[Normalization] = Normalization.MINIBATCH
    time_limit: ClassVar[TimeLimit]
    agents: ClassVar[Agents] = Agents.ENVIRONMENTS
    ranks: ClassVar[Ranks] = Ranks.ONE
    recurrence: ClassVar[Recurrence] = Recurrence.NONE
    per_rank: ClassVar[frozenset[str]] = frozenset({"num_envs", "rollout_size", "minibatch_size"})  # if PER_RANK
    schedule: ClassVar[str] = CONSTANT_RATE  # of the learning rate, by default
    value_clip: ClassVar[str] = UNCLIPPED  # the value loss, by default
    switches: ClassVar[tuple[Switch, ...]] = ()  # keys that change one of these
    unique_features: ClassVar[tuple[str, ...]] = ()  # features that no other library has
    section_files: ClassVar[Mapping[str, str]] = {}  # the file of each section, if they are separate
    stop_section: ClassVar[str] = ""  # beside the config: contains the limits of a run
    prefix: ClassVar[str] = ""  # the section of a file that contains all keys of the library
    fixable: ClassVar[frozenset[str]] = frozenset()  # extras that `fit` may change to make a config valid
    layout: ClassVar[Literal["flat", "dotted", "nested"]] = "flat"
    fixed: ClassVar[Mapping[str, float]] = {}  # hyperparameters that are hard-coded in the library
    other_keys: ClassVar[frozenset[str]] = frozenset()  # keys of the library that resemble a shape key
    rollout_name: ClassVar[str] = "rollout_size"  # the library's name of N·T
    notes: ClassVar[tuple[str, ...]] = ()  # hints for users who translate to this library
    algo: ClassVar[Algo] = "ppo"  # Rollshape's name of the algorithm that the dialect plans
    algorithm: ClassVar[str] = "PPO"  # its usual name
    algorithm_names: ClassVar[frozenset[str]] = _PPO  # in configs; as in families.VOCABULARY
    algorithm_keys: ClassVar[tuple[str, ...]] = ()  # keys that name the algorithm
    algorithm_hints: ClassVar[tuple[str, ...]] = ()  # keys that may name it, such as the name of an experiment
    algorithm_folders: ClassVar[bool] = False  # whether the library's folders are named after algorithms

    @property
    def algorithm_title(self) -> str:
        """Return the algorithm with its article: `a PPO`, `an A2C`."""
        return f"{'an' if self.algorithm[0] in 'AEIO' else 'a'} {self.algorithm}"

    def infer_algorithm(self, level: Mapping[str, Any]) -> tuple[str, str] | None:  # noqa: ARG002
        """Return (algorithm, the reason) if other keys of a config show it; most libraries have no such keys."""
        return None

    @property
    def own_proof(self) -> str:
        """The proof of this dialect itself; that of a dialect which it extends is only one of their common keys."""
        return str(vars(type(self)).get("proof", ""))

    @property
    def shape_keys(self) -> tuple[Key, ...]:
        return tuple(key for key in self.keys if key.concept in SHAPE_CONCEPTS)

    @property
    def hyper_keys(self) -> tuple[Key, ...]:
        return tuple(key for key in self.keys if key.concept not in SHAPE_CONCEPTS and key.concept != EXTRA)

    @property
    def uses_count(self) -> bool:
        """Whether the config contains the number of minibatches instead of their size."""
        concepts = {key.concept for key in self.keys}
        return "num_minibatches" in concepts and "minibatch_size" not in concepts

    # Config values → recipe

    def facts(self, config: Mapping[str, Any], level: tuple[str, ...]) -> dict[str, Any]:  # noqa: ARG002
        """Return what the config says of agents, processes and recurrence; its sizes are at `level`."""
        return {}

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        """Return the recipe of values by concept (extras by key name), in which defaults are filled in."""
        n = self.required(sizes, "num_envs")
        if sizes.get("num_steps") is not None:
            return self.recipe(sizes, n, int(sizes["num_steps"]))
        has_rollout = any(key.concept == "rollout_size" for key in self.keys)
        rollout = self.required(sizes, "rollout_size" if has_rollout else "num_steps")
        streams = n * (sizes.get("num_agents") or 1)
        refusal = f"a rollout of {rollout:,} is not a multiple of {n:,} environments" if rollout % streams else ""
        return self.recipe(sizes, n, nearest_quotient(rollout, streams), refusal)

    def recipe(self, sizes: Mapping[str, Any], n: int, t: int, refusal: str = "") -> Recipe:
        """Return the recipe of N × T with the given minibatch, epochs and budget."""
        agents, recurrent = sizes.get("num_agents") or 1, bool(sizes.get("recurrent"))
        rollout, size, count = n * t * agents, sizes.get("minibatch_size"), sizes.get("num_minibatches")
        if size is None and (count or 1) > rollout:
            refusal, count = f"{count:,} minibatches of a rollout of {rollout:,} samples would be empty", rollout
        if size is None:
            size = rollout // (count or 1)
        recipe = Recipe(
            num_envs=n,
            num_steps=t,
            minibatch_size=size,
            num_minibatches=count if self.uses_count and count else max(1, rollout // size),
            num_epochs=sizes.get("num_epochs") or 1,
            gae_window=t,
            num_agents=agents,
            world_size=sizes.get("world_size") or 1,
            recurrent=recurrent,
            seq_length=sequence_length(self, t, sizes.get("seq_length")) if recurrent else None,
            refusal=refusal,
            algo=self.algo,
            extra={key.name: sizes[key.name] for key in self.keys if key.concept == EXTRA and key.name in sizes},
        )
        return self.with_budget(sizes, recipe)

    def with_budget(self, sizes: Mapping[str, Any], recipe: Recipe) -> Recipe:
        """Return the recipe with the given budget; of several limits, some libraries stop at the first."""
        if not self.stops_at_first:
            return self._with_limit(sizes, recipe)
        recipes = [
            self._with_limit({concept: sizes[concept]}, recipe)
            for concept in ("num_updates", "total_timesteps")
            if sizes.get(concept) is not None
        ]
        return min(recipes, key=lambda limited: limited.num_updates or 0, default=recipe)

    def _with_limit(self, sizes: Mapping[str, Any], recipe: Recipe) -> Recipe:
        rollout = recipe.rollout_size
        if sizes.get("num_updates") is not None:
            updates = int(sizes["num_updates"])
            return replace(recipe, total_timesteps=updates * rollout, num_updates=updates)
        total = sizes.get("total_timesteps")
        if sizes.get("vector_steps") is not None:
            total = int(sizes["vector_steps"]) * recipe.num_envs * recipe.num_agents
        if total is None:
            return recipe
        return replace(recipe, total_timesteps=total, num_updates=self.updates(total, rollout))

    def required(self, sizes: Mapping[str, Any], concept: str) -> int:
        """Return a size, or raise a RequestError that names its key if it is missing."""
        value = sizes.get(concept)
        if value is None:
            names = " or ".join(key.name for key in self.keys if key.concept == concept)
            ways = [f"add {names}" if names else "", "use --num-envs" if concept == "num_envs" else ""]
            fix = ", or ".join(way for way in ways if way) or "give a complete config"
            raise RequestError(
                "missing-key", f"The {self.name} config does not contain {concept}.", f"{fix[0].upper()}{fix[1:]}."
            )
        return whole_number(concept, value)

    # Recipe → config values

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        """Return values by concept (extras by key name): the inverse of `parse` for every result of `adapt`.

        Sizes are those of all processes; `sharing.emit_per_rank` returns them as the config contains them.
        """
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
        """Return the requested budget if this library takes the same number of updates, else the exact one."""
        total, updates, rollout = recipe.total_timesteps, recipe.num_updates, recipe.rollout_size
        if updates is None:
            return None
        if total is not None and self.updates(total, rollout) == updates:
            return total
        return self.exact_budget(updates, rollout)

    def least_budget(self, recipe: Recipe) -> int:
        """Return the smallest budget that allows an update."""
        return self.exact_budget(1, recipe.rollout_size)

    def exact_budget(self, updates: int, rollout: int) -> int:
        """Return the environment steps with which this library takes exactly this number of updates."""
        return updates * rollout

    def _vector_steps(self, recipe: Recipe, total: int | None) -> int | None:
        if total is None or recipe.num_updates is None:
            return None
        steps, rest = divmod(total, recipe.num_envs * recipe.num_agents)
        return recipe.num_updates * recipe.num_steps if rest else steps

    # Hyperparameters

    def parse_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Return hyperparameters by concept from values by key name, completed with the library's defaults."""
        hyper = dict(self.fixed)
        for key in self.hyper_keys:
            value = values.get(key.name, key.default)
            if is_number(value) and value != key.off and not (key.concept == "max_grad_norm" and value == math.inf):
                hyper[key.concept] = _round_off(key.scale * check_range(key, value))
        return hyper

    def emit_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        """Return values by key name from hyperparameters by concept."""
        values = {
            key.name: _round_off(hyper[key.concept] / key.scale) for key in self.hyper_keys if key.concept in hyper
        }
        for key in self.hyper_keys:  # disable what the source does not do; if impossible, emit the default
            if key.concept not in hyper and key.concept != "adaptive_kl":  # (controlled by a schedule)
                values |= {key.name: key.default if key.off is NO_OFF else key.off}
        return values

    # What the library does

    def behavior(self, switches: Mapping[str, bool]) -> dict[str, str]:
        """Return what no size says, by name, with the switches that are in a config."""
        texts = {
            "shuffle": str(self.shuffle),
            "advantage normalization": str(self.normalization),
            "time limit": str(self.time_limit),
            "learning-rate schedule": self.schedule,
            "value loss": self.value_clip,
        }
        return texts | {
            switch.behavior: str(switch.texts[switches[switch.key]])
            for switch in self.switches
            if switches.get(switch.key) in switch.texts
        }

    def adapt(self, recipe: Recipe) -> Recipe:
        """Return the nearest recipe that the library can express; rollout_size has priority over minibatch_size."""
        recipe = with_whole_sequences(recipe)
        unit = recipe.minibatch_unit  # from here on, sizes count sequences, or samples of one rank
        rollout = max(1, recipe.rollout_size // unit)
        size = nearest_quotient(min(recipe.minibatch_size, recipe.rollout_size), unit)
        count = max(1, rollout // size)
        if rollout // recipe.num_minibatches == size:
            count = recipe.num_minibatches  # given as a number of minibatches, possibly with a larger remainder
        elif rollout // count != size and size**2 < (rollout // count) * (rollout // (count + 1)):
            count += 1  # one more minibatch is nearer to the requested size
        if self.refuses_remainder(recipe):
            size = nearest_divisor(rollout, Fraction(min(recipe.minibatch_size, recipe.rollout_size), unit))
            count = rollout // size
        if self.uses_count:
            size = rollout // count
        return self.with_split(recipe, size * unit, count, recipe.num_steps)

    def refuses_remainder(self, recipe: Recipe) -> bool:  # noqa: ARG002
        """Return whether every sample must be in a full minibatch."""
        return self.remainder is Remainder.REFUSE

    def with_split(self, recipe: Recipe, size: int, count: int, window: int) -> Recipe:
        """Return the recipe with another split, without the extras of its original dialect."""
        return replace(recipe, minibatch_size=size, num_minibatches=count, gae_window=window, extra={}, refusal="")

    def adapt_to_windows(self, recipe: Recipe) -> Recipe:
        """Adapt to a library whose minibatches contain whole windows: the window must divide M and T."""
        unit = recipe.minibatch_unit
        size = unit * nearest_divisor(
            recipe.rollout_size // unit, Fraction(min(recipe.minibatch_size, recipe.rollout_size), unit)
        )
        window = gcd(size // recipe.world_size, recipe.num_steps, recipe.gae_window)
        return self.with_split(recipe, size, recipe.rollout_size // size, window)

    def epoch(self, recipe: Recipe) -> Split:
        """Return the minibatches of one epoch."""
        unit = recipe.minibatch_unit
        rollout = recipe.rollout_size // unit
        if self.uses_count:
            return split_by_count(rollout, recipe.num_minibatches, self.remainder).scaled(unit)
        return split(rollout, recipe.minibatch_size // unit, self.remainder).scaled(unit)

    def steps_per_update(self, recipe: Recipe) -> int:
        """Return the optimizer steps per rollout."""
        return recipe.num_epochs * self.epoch(recipe).num_minibatches

    def updates(self, total: int, rollout: int) -> int:
        """Return the number of rollouts within a budget of environment steps."""
        return -(-total // rollout) if self.rounds_up else total // rollout

    def problem(self, recipe: Recipe) -> str:
        """Return why the library rejects the recipe (its error message, if it has one), or an empty string."""
        return recipe.refusal or self.remainder_problem(recipe) or self.sequence_problem(recipe)

    def remainder_problem(self, recipe: Recipe) -> str:
        """Return the library's message if it refuses a remainder and there is one, or an empty string."""
        rollout, size = (n // recipe.world_size for n in (recipe.rollout_size, recipe.minibatch_size))
        rest = rollout % (recipe.num_minibatches if self.uses_count else max(1, size))
        if self.remainder is Remainder.REFUSE and rest:
            return self.remainder_detail.format(rollout=rollout, minibatch=size)
        return ""

    def sequence_problem(self, recipe: Recipe) -> str:
        """Return why the minibatches do not consist of whole sequences, or an empty string."""
        length, size = recipe.seq_length, recipe.minibatch_size // recipe.world_size
        if length is None:
            return ""
        if recipe.num_steps % length:
            return f"{recipe.num_steps:,} steps are not a multiple of the sequence length {length:,}"
        sequences = recipe.rollout_size // recipe.minibatch_unit
        if sequences % recipe.num_minibatches if self.uses_count else size % length:
            return f"minibatches of {size:,} samples do not contain whole sequences of {length:,} steps"
        return ""


def _round_off(value: float) -> float:
    """Round off the error of scaling and unscaling: 0.019999999999999997 → 0.02."""
    return float(f"{value:.12g}")
