"""Making a config valid: in memory for a training script, or as edits of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.calls import check_arguments
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.keys import EXTRA, SHAPE_CONCEPTS, Key, is_number
from rollshape.geometry.dialects.language import CompletionRecipe
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import ParsedConfig, read
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.registry import ALL_DIALECTS, resolve
from rollshape.geometry.dialects.sharing import Ranks, emit_per_rank, rank_problem, with_whole_sequences
from rollshape.geometry.dialects.sources.source import Edit, apply_edits
from rollshape.geometry.divisors import nearest_divisor
from rollshape.geometry.minibatch import automatic_minibatch
from rollshape.geometry.partition import LARGEST_CHANGE
from rollshape.geometry.plan import Plan
from rollshape.geometry.values import POSITIVE

_MINIBATCH = ("minibatch_size", "num_minibatches", "trajectories")
_ADDED = (
    *_MINIBATCH,
    "workers",
    "steps_per_generation",
    "microbatch_size",
)  # to a config that does not contain them, even if the library has no default
BUDGET = frozenset({"total_timesteps", "num_updates", "vector_steps", "optimizer_steps"})
_ENVIRONMENTS = frozenset({"num_envs", "workers", "envs_per_worker"})


@dataclass(frozen=True)
class Fit:
    """The result of fitting a config: the plan that its library runs, what changes, and why."""

    dialect: Dialect
    before: Recipe
    after: Recipe
    plan: Plan
    edits: tuple[Edit, ...]
    reason: str  # empty if the minibatch size is unchanged
    notes: tuple[str, ...] = ()  # which algorithm the config is read as, if no key names it

    def learning_rate_note(self) -> str:
        """Return the advice of the √ rule if the minibatch size changes, else an empty string."""
        old, new, rate = self.before.minibatch_size, self.after.minibatch_size, self.before.hyper.get("learning_rate")
        if old == new or rate is None:
            return ""
        return (
            f"The minibatch size changes from {old:,} to {new:,}: the √ rule (Hilton et al. 2021) suggests a learning "
            f"rate of {rate * sqrt(new / old):.3g} instead of {rate:g}; keep an adaptive learning rate."
        )

    def block(self) -> str:
        """Return the batch configuration in the library's names, formatted for a training log."""
        sizes = emit_per_rank(self.dialect, self.after)
        rows = []
        leaves = Counter(key.leaf for key in self.dialect.shape_keys)
        for key in self.dialect.shape_keys:
            value = sizes.get(key.concept)
            if value is not None and key.concept not in BUDGET:
                chosen = self.reason and key.concept in _MINIBATCH
                name = key.leaf if leaves[key.leaf] == 1 else key.name
                rows.append((name, f"{value} (auto-calculated) {self.reason}" if chosen else str(value)))
        position = next((i for i, row in enumerate(rows) if row[0] in _minibatch_leaves(self.dialect)), len(rows))
        if not any(key.concept == "rollout_size" for key in self.dialect.shape_keys):
            rows.insert(position, (self.dialect.rollout_name, str(self._rollout_size())))
        rows += [("num_agents", str(self.after.num_agents))] if self.after.num_agents > 1 else []
        rows += [("world_size", str(self.after.world_size))] if self.after.world_size > 1 else []
        width = max(len(name) for name, _ in rows)
        return "\n".join(
            ["[INFO]: Batch configuration:", *(f"         {name:<{width}} = {value}" for name, value in rows)]
        )

    def _rollout_size(self) -> int:
        """Return the rollout size as the library counts it."""
        return self.after.rollout_size // (self.after.world_size if self.dialect.ranks is Ranks.PER_RANK else 1)


def _minibatch_leaves(dialect: Dialect) -> set[str]:
    return {key.leaf for key in dialect.shape_keys if key.concept in _MINIBATCH}


@check_arguments
def fit(
    values: Mapping[str, Any],
    dialect: str,
    *,
    num_envs: int | None = None,
    key: str | None = None,
    file: str | None = None,
    num_agents: int | None = None,
    world_size: int | None = None,
    recurrent: bool | None = None,
    seq_length: int | None = None,
) -> Fit:
    """Find the smallest change that makes a config valid for `num_envs` environments; valid sizes are kept.

    `file` is the path of the config, whose name may say which algorithm it is for. `num_envs` is the number of
    environments of all `world_size` processes.
    """
    library = resolve(dialect, values, key=key, file=file)
    facts: dict[str, Any] = {
        "num_envs": num_envs, "key": key, "file": file, "num_agents": num_agents, "world_size": world_size,
        "recurrent": recurrent,
    }  # fmt: skip
    config = read(values, library, candidates=ALL_DIALECTS, hyper=False, seq_length=seq_length, **facts)
    before = replace(config.recipe, hyper=_learning_rate(config, library))
    if (error := rank_problem(library, before)) is not None:
        raise error
    after, reason = make_valid(library, before)
    plan = predict(library, after, "auto" if reason else "user")
    edits = size_edits(library, config, after, is_kept=after is before)
    written_length = None if seq_length is None else after.seq_length
    written = read(apply_edits(values, edits), library, hyper=False, seq_length=written_length, **facts).recipe
    if predict(library, written).split != plan.split:
        raise RequestError(
            "divisibility",
            f"{library.name}: the config cannot be made valid by changing its sizes only.",
            "Check keys that multiply or override a size.",
        )
    return Fit(library, before, after, plan, edits, reason, config.reading.algorithm_notes)


def _learning_rate(config: ParsedConfig, library: Dialect) -> dict[str, float]:
    """Return the learning rate if it is a number; schedules and functions are ignored."""
    for key in library.hyper_keys:
        rate = config.values.get(key.name)
        if key.concept == "learning_rate" and is_number(rate) and POSITIVE.contains(rate):
            return {"learning_rate": rate}
    return {}


def make_valid(library: Dialect, recipe: Recipe) -> tuple[Recipe, str]:
    """Return the nearest recipe that the library accepts without dropping samples, and why the minibatch changed."""
    if _is_valid(library, recipe):
        return recipe, ""
    if isinstance(recipe, CompletionRecipe):
        return library.adapt(recipe), "nearest legal sizes"
    rollout, size = recipe.rollout_size, recipe.minibatch_size
    unit = with_whole_sequences(recipe).minibatch_unit
    units = max(1, rollout // unit)
    if library.uses_count:
        count = nearest_divisor(units, min(recipe.num_minibatches, units))
        near = replace(recipe, minibatch_size=rollout // count, num_minibatches=count)
        reason = f"nearest divisor of {units:,} to {recipe.num_minibatches:,}"
    else:
        divisor = unit * nearest_divisor(units, Fraction(min(size, rollout), unit))
        near = replace(recipe, minibatch_size=divisor, num_minibatches=rollout // divisor)
        reason = f"nearest divisor of {rollout:,} to {size:,}"
    if recipe.seq_length:
        reason += f" in whole sequences of {unit // recipe.world_size:,}"
    nearest = library.adapt(near)
    if _is_valid(library, nearest) and max(nearest.minibatch_size, size) <= LARGEST_CHANGE * min(
        nearest.minibatch_size, size
    ):
        return nearest, "" if nearest.minibatch_size == size else reason
    choice = automatic_minibatch(rollout, unit)
    automatic = replace(recipe, minibatch_size=choice.size, num_minibatches=rollout // choice.size)
    return library.adapt(automatic), choice.reason


def _is_valid(library: Dialect, recipe: Recipe) -> bool:
    """Return whether the library uses all samples and has no minibatch of a single sample to normalize."""
    if library.problem(recipe):
        return False
    split = library.epoch(recipe)
    return split.dropped == 0 and (split.last_minibatch_size > 1 or split.minibatch_size == 1)


def size_edits(library: Dialect, config: ParsedConfig, after: Recipe, *, is_kept: bool) -> tuple[Edit, ...]:
    """Return the edits of all changed sizes; a missing key is added if the library's default is not valid.

    If the recipe `is_kept`, only the number of environments and extras may need an edit.
    """
    sizes = emit_per_rank(library, after) | _workers(config.values, library, after.num_envs)
    edits = []
    for entry in library.keys:
        fixable = entry.concept == EXTRA and entry.name.removeprefix(library.prefix) in library.fixable
        concepts = _ENVIRONMENTS if is_kept else SHAPE_CONCEPTS - BUDGET
        if not fixable and entry.concept not in concepts:
            continue
        name = entry.name if fixable else entry.concept
        new, old = sizes.get(name), config.values.get(entry.name)
        if new is None and not (entry.off is None and name in sizes):
            continue
        if old is not None or (new is None and entry.name in config.values):
            edits += [Edit(config.reading.paths[entry.name], new)] if new != old else []
        elif new != entry.default and (entry.concept in _ADDED or entry.default is not None):
            edits.append(Edit(key_path(library, config, entry, new), new))
    return tuple(edits)


def _workers(values: Mapping[str, Any], library: Dialect, num_envs: int) -> dict[str, int]:
    """Distribute the environments over the workers of the config, if they divide evenly."""
    workers = max(
        (values.get(key.name) or key.default or 1 for key in library.keys if key.concept == "workers"), default=1
    )
    return {"workers": workers, "envs_per_worker": num_envs // workers} if num_envs % workers == 0 else {}


def key_path(library: Dialect, config: ParsedConfig, entry: Key, value: Any) -> tuple[str, ...]:
    """Return the path of a missing key: next to other keys of its section, in the same style.

    Without such keys it is a new section, unless the config is flat or dotted; if the section belongs to another file,
    this one cannot contain it.
    """
    section, level = entry.name.rpartition(".")[0], config.reading.level
    paths = config.reading.paths
    for sibling in library.keys:
        path = paths.get(sibling.name)
        if path is not None and sibling.name.rpartition(".")[0] == section:
            return (*path[:-1], entry.name if path[-1] == sibling.name else entry.leaf)
    if section in library.section_files:
        file = library.section_files[section]
        raise RequestError(
            "fragment",
            f"{library.name}: {entry.leaf} belongs to the section {section} ({file}), which this file does not "
            "contain.",
            f"Set {entry.name} to {value} there, or patch the complete config.",
        )
    inside = {name: path[len(level) :] for name, path in paths.items() if "." in name}
    if any(path == (name,) for name, path in inside.items()):
        return (*level, entry.name)
    if any(len(path) > 1 for path in inside.values()):
        return (*level, *entry.name.split("."))
    return (*level, entry.leaf)


@check_arguments
def fit_config(
    config: Mapping[str, Any],
    dialect: str,
    num_envs: int | None = None,
    *,
    key: str | None = None,
    verbose: bool = True,
    num_agents: int | None = None,
    world_size: int | None = None,
    recurrent: bool | None = None,
    seq_length: int | None = None,
) -> dict[str, Any]:
    """Return the config with valid sizes for `num_envs` environments; call it in a training script.

    >>> agent_cfg = rollshape.fit_config(agent_cfg, dialect="rl_games", num_envs=env.num_envs)

    The input is not modified: the result is a copy (of the mappings that change) in which only invalid sizes differ. In
    a script that runs in several processes, give the environments of one process and no `world_size`, or those of all
    processes and `world_size`.
    With `verbose`, print the batch configuration in the library's names.
    """
    result = fit(
        config, dialect, num_envs=num_envs, key=key,
        num_agents=num_agents, world_size=world_size, recurrent=recurrent, seq_length=seq_length,
    )  # fmt: skip
    fitted = apply_edits(config, result.edits)
    if verbose:
        print(result.block())
        for finding in result.plan.findings:
            if finding.rule == "remainder":
                print(f"[WARN]: {finding.message}")
        if result.learning_rate_note():
            print(f"[INFO]: {result.learning_rate_note()}")
    return fitted
