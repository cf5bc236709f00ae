"""Making a config legal: in memory for a training script, or as edits for a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.cut import FAR
from rollshape.geometry.dialects.base import EXTRA, SHAPE_CONCEPTS, Dialect, Key, is_number
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import Heard, read
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.registry import DIALECTS, resolve
from rollshape.geometry.dialects.yamlfile import Edit, edited
from rollshape.geometry.divisors import nearest_divisor
from rollshape.geometry.minibatch import automatic_minibatch
from rollshape.geometry.plan import Plan

_MINIBATCH = ("minibatch_size", "num_minibatches", "trajectories")
_BUDGET = ("total_timesteps", "num_updates", "vector_steps")


@dataclass(frozen=True)
class Fit:
    """A config made legal: the plan that its library then runs, what changes, and why."""

    dialect: Dialect
    before: Recipe
    after: Recipe
    plan: Plan
    edits: tuple[Edit, ...]
    reason: str  # empty when the minibatch was legal and is kept

    def learning_rate_note(self) -> str:
        """What the √ rule says to a minibatch that changed; empty if it did not."""
        old, new, rate = self.before.minibatch_size, self.after.minibatch_size, self.before.hyper.get("learning_rate")
        if old == new or rate is None:
            return ""
        return (
            f"The minibatch went from {old:,} to {new:,}: by the √ rule (Hilton et al. 2021) learning rate {rate:g} "
            f"becomes {rate * sqrt(new / old):.3g}; an adaptive one finds its own level."
        )

    def block(self) -> str:
        """The batch configuration in the library's own names, as a training log shows it."""
        said = self.dialect.say(self.after)
        rows = []
        for key in self.dialect.shape_keys:
            value = said.get(key.concept)
            if value is not None and key.concept not in _BUDGET:
                chosen = self.reason and key.concept in _MINIBATCH
                rows.append((key.leaf, f"{value} (auto-calculated) {self.reason}" if chosen else str(value)))
        position = next((i for i, row in enumerate(rows) if row[0] in _minibatch_leaves(self.dialect)), len(rows))
        if not any(key.concept == "rollout_size" for key in self.dialect.shape_keys):
            rows.insert(position, (self.dialect.rollout_name, str(self.after.rollout_size)))
        width = max(len(name) for name, _ in rows)
        return "\n".join(
            ["[INFO]: Batch configuration:", *(f"         {name:<{width}} = {value}" for name, value in rows)]
        )


def _minibatch_leaves(dialect: Dialect) -> set[str]:
    return {key.leaf for key in dialect.shape_keys if key.concept in _MINIBATCH}


def fit(values: Mapping[str, Any], dialect: str, *, num_envs: int | None = None, key: str | None = None) -> Fit:
    """The smallest change that makes a config legal for `num_envs` environments; sizes that work are kept."""
    speaker = resolve(dialect, values)
    heard = read(values, speaker, num_envs=num_envs, key=key, guesses=DIALECTS, hyper=False)
    before = replace(heard.recipe, hyper=_learning_rate(heard, speaker))
    after, reason = _legal(speaker, before)
    plan = predict(speaker, after, "auto" if reason else "user")
    edits = _edits(speaker, heard, after)
    written = read(edited(values, edits), speaker, num_envs=num_envs, key=key, hyper=False).recipe
    if predict(speaker, written).split != plan.split:
        raise RequestError(
            "divisibility",
            f"{speaker.name}: the config cannot be made legal by changing its sizes alone.",
            "Check the keys that multiply or override a size.",
        )
    return Fit(speaker, before, after, plan, edits, reason)


def _learning_rate(heard: Heard, speaker: Dialect) -> dict[str, float]:
    """The learning rate where it is a number: a schedule or a function is none of a fit's business."""
    for key in speaker.hyper_keys:
        rate = heard.reading.values.get(key.name)
        if key.concept == "learning_rate" and is_number(rate) and rate > 0:
            return {"learning_rate": rate}
    return {}


def _legal(speaker: Dialect, recipe: Recipe) -> tuple[Recipe, str]:
    """The recipe, or the nearest that the library takes without losing samples; and why the minibatch changed."""
    if _works(speaker, recipe):
        return recipe, ""
    rollout, size = recipe.rollout_size, recipe.minibatch_size
    if speaker.says_count:
        count = nearest_divisor(rollout, min(recipe.num_minibatches, rollout))
        near = replace(recipe, minibatch_size=rollout // count, num_minibatches=count)
        reason = f"the divisor of {rollout:,} nearest to {recipe.num_minibatches:,}"
    else:
        divisor = nearest_divisor(rollout, min(size, rollout))
        near = replace(recipe, minibatch_size=divisor, num_minibatches=rollout // divisor)
        reason = f"the divisor of {rollout:,} nearest to {size:,}"
    nearest = speaker.adapt(near)
    if _works(speaker, nearest) and max(nearest.minibatch_size / size, size / nearest.minibatch_size) <= FAR:
        return nearest, "" if nearest.minibatch_size == size else reason
    choice = automatic_minibatch(rollout)
    chosen = speaker.adapt(replace(recipe, minibatch_size=choice.size, num_minibatches=rollout // choice.size))
    return chosen, choice.reason


def _works(speaker: Dialect, recipe: Recipe) -> bool:
    """Whether the library runs the recipe on all samples, and normalises no minibatch of a single one."""
    if speaker.problem(recipe):
        return False
    cut = speaker.epoch(recipe)
    return cut.dropped == 0 and (cut.last_minibatch_size > 1 or cut.minibatch_size == 1)


def _edits(speaker: Dialect, heard: Heard, after: Recipe) -> tuple[Edit, ...]:
    """The sizes whose value changes; one that the config lacks is added if the library's default would not do."""
    said = speaker.say(after) | _workers(heard.reading.values, speaker, after.num_envs)
    edits = []
    for entry in speaker.keys:
        mendable = entry.concept == EXTRA and entry.name.removeprefix(speaker.prefix) in speaker.mendable
        if entry.concept in _BUDGET or not (mendable or entry.concept in SHAPE_CONCEPTS):
            continue
        new, old = said.get(entry.name if mendable else entry.concept), heard.reading.values.get(entry.name)
        if new is None:
            continue
        if old not in (None, -1):
            edits += [Edit(heard.reading.paths[entry.name], new)] if new != old else []
        elif new != entry.default and (entry.concept in _MINIBATCH or entry.default is not None):
            edits.append(Edit(_place(speaker, heard, entry), new))
    return tuple(edits)


def _workers(values: Mapping[str, Any], speaker: Dialect, num_envs: int) -> dict[str, int]:
    """Environments spread over the workers that the config has, where that comes out even."""
    sizes = {key.concept: values.get(key.name) or key.default for key in speaker.keys}
    workers = max(1, sizes.get("workers") or 1)
    return {"workers": workers, "envs_per_worker": num_envs // workers} if num_envs % workers == 0 else {}


def _place(speaker: Dialect, heard: Heard, entry: Key) -> tuple[str, ...]:
    """Where a key that the config lacks belongs: beside those of its own section, spelt as they are."""
    section = entry.name.rpartition(".")[0]
    for sibling in speaker.keys:
        path = heard.reading.paths.get(sibling.name)
        if path is not None and sibling.name.rpartition(".")[0] == section:
            return (*path[:-1], entry.name if path[-1] == sibling.name else entry.leaf)
    return (*heard.reading.level, entry.leaf)


def fit_config(
    config: Mapping[str, Any],
    dialect: str,
    num_envs: int | None = None,
    *,
    key: str | None = None,
    verbose: bool = True,
) -> dict[str, Any]:
    """The config made legal for `num_envs` environments, for a training script.

    >>> agent_cfg = rollshape.fit_config(agent_cfg, dialect="rl_games", num_envs=env.num_envs)

    The config itself is not touched; a copy comes back (of the mappings that change) in which only sizes that would
    not work are other ones. Prints
    the batch configuration in the library's own names unless `verbose` is off.
    """
    result = fit(config, dialect, num_envs=num_envs, key=key)
    fitted = edited(config, result.edits)
    if verbose:
        print(result.block())
        for finding in result.plan.findings:
            if finding.rule == "remainder":
                print(f"[WARN]: {finding.message}")
        if result.learning_rate_note():
            print(f"[INFO]: {result.learning_rate_note()}")
    return fitted
