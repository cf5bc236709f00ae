"""From one library's words to another's, with everything that gets lost on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import Heard, read, write
from rollshape.geometry.dialects.recipe import HYPERPARAMETERS, Recipe
from rollshape.geometry.dialects.registry import DIALECTS, resolve
from rollshape.geometry.dialects.rrd import translate_rrd
from rollshape.geometry.plan import Plan

UNCLAIMED = "no counterpart in"


@dataclass(frozen=True)
class Translation:
    """The target's config, the plan that the target will run, and what could not be preserved."""

    config: dict[str, Any]
    plan: Plan
    not_preserved: tuple[str, ...]
    notes: tuple[str, ...] = ()  # what the target's users should know

    def to_dict(self) -> dict[str, Any]:
        return {
            "config": self.config,
            "plan": self.plan.to_dict(),
            "not_preserved": list(self.not_preserved),
            "notes": list(self.notes),
        }


def translate(
    config: Mapping[str, Any],
    source: str,
    target: str,
    *,
    num_envs: int | None = None,
    key: str | None = None,
    strict: bool = False,
) -> Translation:
    """Translate a config: `translate({"n_envs": 8, "n_steps": 128}, "sb3", "rl_games")`.

    `num_envs` overrides or supplies the number of environments, `key` picks a level of a nested config; with `strict`
    a shape that the target cannot say is an error instead of a line in `not_preserved`.
    """
    if "rrd" in (source, target):
        return Translation(*translate_rrd(config, source, target, key))
    speaker = resolve(source, config)
    listener = resolve(target, None, like=speaker)
    heard = read(config, speaker, num_envs=num_envs, key=key, guesses=DIALECTS)
    before = predict(speaker, heard.recipe)
    adapted = listener.adapt(_effective(heard.recipe, before))
    result = write(adapted, listener)
    after_recipe = read(result, listener).recipe
    after = predict(listener, after_recipe)
    changes = tuple(_shape_changes(before, after, speaker, listener))
    if strict and changes:
        raise RequestError(
            "strict",
            f"{listener.name} cannot say this shape: {changes[0]}.",
            "Leave --strict out to take the nearest shape that it can.",
        )
    lost = (
        *changes,
        *_budget_changes(before, after, speaker, listener),
        *_hyper_changes(heard.recipe, after_recipe, listener),
        *_behaviour_changes(speaker, listener),
        *heard.reading.notes,
        *heard.unread,
        *_assumptions(heard, speaker),
        *(f"{name}: {UNCLAIMED} {listener.name}" for name in heard.reading.others),
    )
    return Translation(result, after, lost, listener.notes)


def _effective(recipe: Recipe, plan: Plan) -> Recipe:
    """The recipe with the minibatch that the source really trains on (SB3 takes one larger than the rollout)."""
    return replace(recipe, minibatch_size=plan.minibatch_size)


def _shape_changes(before: Plan, after: Plan, speaker: Dialect, listener: Dialect) -> Iterator[str]:
    for name in ("num_envs", "num_steps", "gae_window", "rollout_size", "minibatch_size", "num_epochs"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield f"{name}: {old:,} in {speaker.name}, {new:,} in {listener.name}"
    old, new = before.gradient_steps_per_update, after.gradient_steps_per_update
    if old != new:
        yield f"gradient steps per update: {old:,} in {speaker.name}, {new:,} in {listener.name}"
    if before.split.dropped != after.split.dropped:
        old, new = before.dropped, after.dropped
        yield f"samples left out of an epoch: {old:,} in {speaker.name}, {new:,} in {listener.name}"
    elif before.last_minibatch_size != after.last_minibatch_size:
        yield (
            f"last minibatch: {before.last_minibatch_size:,} samples in {speaker.name}, "
            f"{after.last_minibatch_size:,} in {listener.name}"
        )


def _budget_changes(before: Plan, after: Plan, speaker: Dialect, listener: Dialect) -> Iterator[str]:
    if before.num_updates is None and after.num_updates is not None:
        yield f"budget: {speaker.name} says none here; {listener.name}'s default of {after.total_timesteps:,} applies"
    elif before.num_updates is not None and after.num_updates is None:
        yield f"budget of {before.actual_timesteps:,} timesteps: {listener.name} has no key for it"
    elif before.num_updates != after.num_updates:
        yield f"num_updates: {before.num_updates:,} in {speaker.name}, {after.num_updates:,} in {listener.name}"
    elif before.total_timesteps != after.total_timesteps:
        yield (
            f"total_timesteps: {before.total_timesteps:,} became {after.total_timesteps:,}, of which "
            f"{listener.name} makes the same {after.num_updates:,} updates"
        )


def _hyper_changes(before: Recipe, after: Recipe, listener: Dialect) -> Iterator[str]:
    for concept, meaning in HYPERPARAMETERS.items():
        old, new = before.hyper.get(concept), after.hyper.get(concept)
        if old is not None and new is None:
            yield f"{concept} {old:g} ({meaning}): no counterpart in {listener.name}"
        elif old is None and new is not None:
            yield f"{concept}: the source has none; {listener.name} applies {new:g}"
        elif old is not None and new is not None and old != new:
            yield f"{concept} {old:g}: fixed at {new:g} in {listener.name}"


def _behaviour_changes(speaker: Dialect, listener: Dialect) -> Iterator[str]:
    for what, old, new in (
        ("shuffle", speaker.shuffle, listener.shuffle),
        ("advantage normalisation", speaker.normalise, listener.normalise),
        ("time limit", speaker.time_limit, listener.time_limit),
        ("learning-rate schedule", speaker.schedule, listener.schedule),
        ("value loss", speaker.value_clip, listener.value_clip),
    ):
        if old != new:
            yield f"{what}: {speaker.name}: {old}; {listener.name}: {new}"
    if speaker.name != listener.name:
        yield from (f"{text}: only {speaker.name} has it" for text in speaker.peculiar)


def _assumptions(heard: Heard, speaker: Dialect) -> Iterator[str]:
    if heard.assumed:
        yield f"not in the config, so {speaker.name}'s default was taken: {', '.join(heard.assumed)}"
