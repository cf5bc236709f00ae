"""Translating a config from one library to another, with a list of everything that is not preserved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.calls import check_arguments
from rollshape.geometry.completions import CompletionSizes
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.language import check_algorithm, check_family, estimator_changes
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import ParsedConfig, read, write
from rollshape.geometry.dialects.recipe import HYPERPARAMETERS, Recipe
from rollshape.geometry.dialects.registry import ALL_DIALECTS, canonical, resolve
from rollshape.geometry.dialects.rrd import translate_rrd
from rollshape.geometry.dialects.sharing import FACTS, Ranks, rank_problem, receive
from rollshape.geometry.plan import Plan

NO_COUNTERPART = "no counterpart in"
_SHAPE = (
    "num_envs", "num_agents", "world_size", "num_steps", "seq_length", "gae_window", "rollout_size", "minibatch_size",
    "num_epochs",
)  # fmt: skip


@dataclass(frozen=True)
class Translation:
    """The target's config, the plan that the target library runs, and what is not preserved."""

    config: dict[str, Any]
    plan: Plan
    not_preserved: tuple[str, ...]
    notes: tuple[str, ...] = ()  # hints for users of the target library

    def to_dict(self) -> dict[str, Any]:
        return {
            "config": self.config,
            "plan": self.plan.to_dict(),
            "not_preserved": list(self.not_preserved),
            "notes": list(self.notes),
        }


@check_arguments
def translate(
    config: Mapping[str, Any],
    source: str,
    target: str,
    *,
    num_envs: int | None = None,
    key: str | None = None,
    strict: bool = False,
    file: str | None = None,
    num_agents: int | None = None,
    world_size: int | None = None,
    recurrent: bool | None = None,
    seq_length: int | None = None,
) -> Translation:
    """Translate a config: `translate({"n_envs": 8, "n_steps": 128}, "sb3", "rl_games")`.

    `num_envs` overrides or supplies the number of environments (of all `world_size` processes), `key` selects a level
    of a nested config. With `strict`, a shape that the target cannot express is an error instead of an entry of
    `not_preserved`. `file` is the path of the config, whose name may say which algorithm it is for. If only the target
    trains in several processes, `world_size` is their number.
    """
    source, target = canonical(source), canonical(target)
    if "rrd" in (source, target):
        return Translation(*translate_rrd(config, source, target, key))
    source_dialect = resolve(source, config, key=key, file=file)
    target_dialect = resolve(target, None, like=source_dialect)
    check_family(source_dialect, target_dialect)
    parsed = read(
        config, source_dialect, num_envs=num_envs, key=key, candidates=ALL_DIALECTS, file=file, num_agents=num_agents,
        world_size=None if source_dialect.ranks is Ranks.ONE else world_size, recurrent=recurrent,
        seq_length=seq_length,
    )  # fmt: skip
    check_algorithm(parsed.recipe, source_dialect, target_dialect)
    before = predict(source_dialect, parsed.recipe)
    recipe = replace(_effective_recipe(parsed.recipe, before), world_size=world_size or parsed.recipe.world_size)
    result, after_config, after = _write_recipe(recipe, target_dialect)
    changes = tuple(_shape_changes(before, after, source_dialect, target_dialect))
    if strict and changes:
        raise RequestError(
            "strict",
            f"{target_dialect.name} cannot express this shape: {changes[0]}.",
            "Remove --strict to use the nearest shape that it can express.",
        )
    lost = (
        *_algorithm_changes(before, after, source_dialect, target_dialect),
        *changes,
        *estimator_changes(parsed.recipe, after_config.recipe, source_dialect, target_dialect),
        *_budget_changes(before, after, source_dialect, target_dialect),
        *_hyper_changes(parsed.recipe, after_config.recipe, target_dialect),
        *_behavior_changes(parsed.behavior, after_config.behavior, source_dialect, target_dialect),
        *parsed.reading.notes,
        *parsed.not_numbers,
        *_default_notes(parsed, source_dialect),
        *(f"{name}: {NO_COUNTERPART} {target_dialect.name}" for name in parsed.reading.other_keys),
    )
    warnings = [finding.message for finding in before.findings if before.completions and finding.severity == "warn"]
    notes = (*warnings, *parsed.reading.algorithm_notes, *_rank_notes(after, target_dialect), *target_dialect.notes)
    return Translation(result, after, lost, notes)


def _write_recipe(recipe: Recipe, target: Dialect) -> tuple[dict[str, Any], ParsedConfig, Plan]:
    """Return (config, what reading it back gives, what the library runs) of the nearest recipe that it can express."""
    received = receive(target, recipe)
    if (error := rank_problem(target, received)) is not None:
        raise error
    adapted = target.adapt(received)
    config = write(adapted, target)
    written = read(config, target, **({} if target.ranks is Ranks.KEYS else _facts(adapted)))
    return config, written, predict(target, written.recipe)


def write_plan(plan: Plan, target: str, hyper: Mapping[str, float]) -> Translation:
    """Write a plan as the config of a library, and list what is not preserved; `hyper` are its hyperparameters."""
    source, dialect = resolve("rollshape", None), resolve(target, None)
    check_family(source, dialect)
    recipe = Recipe(
        **{field.name: getattr(plan, field.name) for field in fields(Recipe) if hasattr(plan, field.name)}, hyper=hyper
    )
    config, written, after = _write_recipe(recipe, dialect)
    lost = (
        *_algorithm_changes(plan, after, source, dialect),
        *_shape_changes(plan, after, source, dialect),
        *_budget_changes(plan, after, source, dialect),
        *_hyper_changes(recipe, written.recipe, dialect),
        *_behavior_changes(source.behavior({}), written.behavior, source, dialect),
    )
    return Translation(config, after, lost, (*_rank_notes(after, dialect), *dialect.notes))


def _facts(recipe: Recipe) -> dict[str, Any]:
    """Return what a run has and a config need not contain."""
    return {name: getattr(recipe, name) for name in FACTS if getattr(recipe, name) not in (1, False)}


def _algorithm_changes(before: Plan, after: Plan, source: Dialect, target: Dialect) -> Iterator[str]:
    if before.algo != after.algo:
        yield f"algorithm: {before.algo} in {source.name}, {after.algo} in {target.name}"


def _effective_recipe(recipe: Recipe, plan: Plan) -> Recipe:
    """Return the recipe with the minibatch size that the source really uses (SB3 accepts one above the rollout)."""
    return replace(recipe, minibatch_size=plan.minibatch_size)


def _rank_notes(plan: Plan, target: Dialect) -> Iterator[str]:
    if plan.world_size > 1 and target.ranks is not Ranks.KEYS:
        sizes = f"start {plan.world_size:,} processes (torchrun --nproc_per_node {plan.world_size})"
        counts = {
            Ranks.PER_RANK: f"the sizes are those of one process: {sizes}",
            Ranks.GLOBAL: f"the sizes are those of all {plan.world_size:,} devices",
            Ranks.LEARNERS: f"batch and minibatch are those of one of {plan.world_size:,} learners",
        }
        yield counts[target.ranks]


def _number(value: int | None) -> str:
    return "none" if value is None else f"{value:,}"


def _shape_changes(before: Plan, after: Plan, source: Dialect, target: Dialect) -> Iterator[str]:
    for name, old, new in _sizes(before, after):
        if old != new:
            yield f"{name}: {_number(old)} in {source.name}, {_number(new)} in {target.name}"
    if before.recurrent != after.recurrent:
        one, other = (target, source) if after.recurrent else (source, target)
        yield f"recurrent policy: in {one.name}, not in {other.name}"
    old, new = before.gradient_steps_per_update, after.gradient_steps_per_update
    if old != new:
        yield f"gradient steps per update: {old:,} in {source.name}, {new:,} in {target.name}"
    if before.split.dropped != after.split.dropped:
        old, new = before.dropped, after.dropped
        yield f"samples omitted per epoch: {old:,} in {source.name}, {new:,} in {target.name}"
    elif before.last_minibatch_size != after.last_minibatch_size:
        yield (
            f"last minibatch: {before.last_minibatch_size:,} samples in {source.name}, "
            f"{after.last_minibatch_size:,} in {target.name}"
        )


def _sizes(before: Plan, after: Plan) -> Iterator[tuple[str, int, int]]:
    """Yield the sizes to compare, with their names."""
    if before.completions is None or after.completions is None:
        for name in _SHAPE:
            yield name, getattr(before, name), getattr(after, name)
    else:
        for field in fields(CompletionSizes):
            yield field.name, getattr(before.completions, field.name), getattr(after.completions, field.name)
    for name in ("rollout_size", "minibatch_size", "num_epochs"):
        yield name, getattr(before, name), getattr(after, name)


def _budget_changes(before: Plan, after: Plan, source: Dialect, target: Dialect) -> Iterator[str]:
    unit = "timesteps" if before.completions is None else "completions"
    if before.num_updates is None and after.num_updates is not None:
        yield f"budget: not in the config; {target.name} uses its default of {after.total_timesteps:,} {unit}"
    elif before.num_updates is not None and after.num_updates is None:
        yield f"budget of {before.actual_timesteps:,} {unit}: {target.name} has no key for it"
    elif before.num_updates != after.num_updates:
        yield f"num_updates: {before.num_updates:,} in {source.name}, {after.num_updates:,} in {target.name}"
    elif before.total_timesteps != after.total_timesteps:
        yield (
            f"total_timesteps: {before.total_timesteps:,} changed to {after.total_timesteps:,}, so that "
            f"{target.name} also runs {after.num_updates:,} updates"
        )


def _hyper_changes(before: Recipe, after: Recipe, target: Dialect) -> Iterator[str]:
    for concept, meaning in HYPERPARAMETERS.items():
        old, new = before.hyper.get(concept), after.hyper.get(concept)
        if old is not None and new is None:
            yield f"{concept} {old:g} ({meaning}): no counterpart in {target.name}"
        elif old is None and new is not None:
            yield f"{concept}: not used by the source; {target.name} uses {new:g}"
        elif old is not None and new is not None and f"{old:g}" != f"{new:g}":
            yield f"{concept} {old:g}: fixed at {new:g} in {target.name}"


def _behavior_changes(
    before: Mapping[str, str], after: Mapping[str, str], source: Dialect, target: Dialect
) -> Iterator[str]:
    for what, old in before.items():
        if _meaning(old) != _meaning(after[what]):
            yield f"{what}: {source.name}: {old}; {target.name}: {after[what]}"
    if source.name != target.name:
        yield from (f"{text}: specific to {source.name}" for text in source.unique_features)


def _meaning(text: str) -> str:
    """Return a behavior without the name of the key that controls it, which differs between libraries."""
    return text.partition(" (")[0].removeprefix("always ")


def _default_notes(parsed: ParsedConfig, source: Dialect) -> Iterator[str]:
    if parsed.defaults:
        yield f"not in the config, {source.name} defaults used: {', '.join(parsed.defaults)}"
