"""The edits of a rescaled config besides its sizes: the budget and the learning rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rollshape.errors import RequestError
from rollshape.formatting import short_repr
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.config import SCHEDULES
from rollshape.geometry.dialects.fit import BUDGET, key_path
from rollshape.geometry.dialects.keys import Key, is_number
from rollshape.geometry.dialects.policies import RescalePolicy, scale_learning_rate
from rollshape.geometry.dialects.reading import ParsedConfig
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sources.source import Edit
from rollshape.geometry.values import plain_scalar


def budget_edits(library: Dialect, config: ParsedConfig, target: Recipe) -> Iterator[Edit]:
    """Yield the edits that give the target's budget; a config without a budget stays without one."""
    if target.num_updates is None:
        return
    budget = {
        "num_updates": target.num_updates,
        "total_timesteps": library.budget(target),
        "vector_steps": library.emit(target).get("vector_steps"),
    }
    for entry in library.keys:
        old = config.values.get(entry.name, entry.default)
        if entry.concept in BUDGET and old is not None and budget.get(entry.concept) not in (None, old):
            new = budget[entry.concept]
            yield Edit(config.reading.paths.get(entry.name) or key_path(library, config, entry, new), new)


def planned_edits(library: Dialect, config: ParsedConfig, target: Recipe) -> Iterator[Edit]:
    """Yield edits that set sizes which the library would plan anew from the others (only Rollshape does)."""
    given = {entry.concept for entry in library.keys if config.values.get(entry.name) is not None}
    has_split = given & {"minibatch_size", "num_minibatches"}
    for entry in library.keys:
        if (entry.concept == "num_steps" and entry.default is None and not given & {"num_steps", "rollout_size"}) or (
            entry.concept == "minibatch_size" and entry.default == "auto" and not has_split
        ):
            new = getattr(target, entry.concept)
            yield Edit(key_path(library, config, entry, new), new)


def rate_edits(
    library: Dialect, config: ParsedConfig, values: Mapping[str, Any], sizes: tuple[int, int], policy: RescalePolicy
) -> Iterator[Edit]:
    """Yield the edits of every learning rate; `sizes` are the minibatch sizes before and after."""
    if policy.lr_power == 0 or sizes[0] == sizes[1]:
        return
    for entry in _rate_keys(library, config.recipe):
        path = config.reading.paths.get(entry.name)
        old = plain_scalar(config.reading.values.get(entry.name, entry.default))
        if not is_number(old):
            given = "not in the config" if old is None else f"{short_repr(old)}, not a number"
            raise RequestError(
                "rescale",
                f"{policy.name} scales the learning rate, but {entry.name} is {given}.",
                "Set it to a number, or use a policy that keeps it, such as keep-minibatch.",
            )
        new = scale_learning_rate(old, *sizes, policy)
        if path is None:
            yield Edit(key_path(library, config, entry, new), new)
        else:
            prefix = _schedule_prefix(values, path)
            yield Edit(path, f"{prefix}{new}" if prefix else new)


def _rate_keys(library: Dialect, recipe: Recipe) -> Iterator[Key]:
    """Yield the keys of the learning rate, and those that the dialect sets with it (Stoix: the critic's)."""
    rate = recipe.hyper.get("learning_rate", 1.0)
    old, new = (library.emit_hyper({**recipe.hyper, "learning_rate": value}) for value in (rate, 2 * rate))
    for entry in library.keys:
        if entry.concept == "learning_rate" or (entry.name in new and old.get(entry.name) != new[entry.name]):
            yield entry


def _schedule_prefix(values: Mapping[str, Any], path: tuple[str, ...]) -> str:
    """Return `lin_` if the value is rl-zoo's `lin_0.001`, else an empty string."""
    value: Any = values
    for part in path:
        value = value[part]
    return next((prefix for prefix in SCHEDULES if isinstance(value, str) and value.startswith(prefix)), "")
