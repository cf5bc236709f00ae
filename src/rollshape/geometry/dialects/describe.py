"""Facts about dialects as JSON-ready values."""

from __future__ import annotations

from typing import Any

from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.registry import DIALECTS, LANGUAGE_DIALECTS, canonical, resolve
from rollshape.geometry.dialects.rrd import RrdDialect


def find_dialects(name: str | None = None) -> list[Dialect]:
    """Return all dialects, or those of one library; an unknown name is a RequestError with the nearest one."""
    known: list[Dialect] = [*DIALECTS.values(), RrdDialect(), *LANGUAGE_DIALECTS.values()]
    if name is None:
        return known
    wanted = canonical(name)
    return [dialect for dialect in known if wanted in (dialect.name, dialect.name.partition(":")[0])] or [
        resolve(name, None)
    ]


def describe(dialect: Dialect) -> dict[str, Any]:
    """Return the facts about a dialect as JSON-ready values."""
    return {
        "name": dialect.name,
        "library": dialect.library,
        "version": dialect.version,
        "proof": dialect.own_proof,
        "algorithm": dialect.algorithm,
        "algorithm_keys": ", ".join((*dialect.algorithm_keys, *dialect.algorithm_hints)),
        "keys": {key.name: _meaning(key.concept, key.scale, key.name, key.default) for key in dialect.keys},
        "remainder": dialect.remainder.value,
        "remainder_detail": dialect.remainder_detail.format(rollout="N·T", minibatch="M"),
        "budget": "rounds up" if dialect.rounds_up else "rounds down",
        "shuffle": dialect.shuffle.value,
        "advantage_normalisation": dialect.normalization.value,
        "time_limit": dialect.time_limit.value,
        "processes": dialect.ranks.value,
        "agents": dialect.agents.value,
        "recurrent_policies": dialect.recurrence.value,
        "learning_rate_schedule": dialect.schedule,
        "value_loss": dialect.value_clip,
        "notes": list(dialect.notes),
    }


def _meaning(concept: str, scale: float, name: str, default: Any) -> str:
    what = name.rpartition(".")[2] if concept == "extra" else concept
    factor = f" = {scale:g} × the value" if scale != 1 else ""
    return f"{what}{factor}" + (f" (default {default})" if default is not None else "")
