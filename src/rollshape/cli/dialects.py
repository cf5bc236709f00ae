"""`rollshape dialects`: list the supported libraries and how they use their configs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from rollshape.cli.flags import CommonArgs, parse
from rollshape.geometry.dialects import DIALECTS, resolve
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.keys import EXTRA
from rollshape.geometry.dialects.registry import LANGUAGE_DIALECTS, canonical
from rollshape.geometry.dialects.rrd import RrdDialect


@dataclass(frozen=True, kw_only=True)
class DialectsArgs(CommonArgs):
    """List the supported libraries (dialects), or show one in detail."""

    name: Annotated[str | None, "dialect to show in detail"] = None


def run(argv: Sequence[str]) -> None:
    args = parse(DialectsArgs, "dialects", argv)
    known: list[Dialect] = [*DIALECTS.values(), RrdDialect(), *LANGUAGE_DIALECTS.values()]
    if args.name is not None:
        name = canonical(args.name)
        known = [dialect for dialect in known if name in (dialect.name, dialect.name.partition(":")[0])]
        known = known or [resolve(args.name, None)]  # raises, with the nearest name
    from rollshape.cli.output import print_json

    if args.json:
        print_json([describe(dialect) for dialect in known])
    elif args.name is not None:
        print("\n\n".join(_page(dialect) for dialect in known))
    else:
        environments = [dialect for dialect in known if dialect.name not in LANGUAGE_DIALECTS]
        print(_table(environments, _COLUMNS))
        print("\nLanguage models")
        print(_table(list(LANGUAGE_DIALECTS.values()), _LANGUAGE_COLUMNS))


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


def _page(dialect: Dialect) -> str:
    lines = []
    for field, value in describe(dialect).items():
        if isinstance(value, dict):
            lines += [f"{field}:", *(f"  {name:<38} {meaning}" for name, meaning in value.items())]
        elif isinstance(value, list):
            lines += [f"{field}:", *(f"  {item}" for item in value)]
        else:
            lines.append(f"{field + ':':<26}{value}")
    return "\n".join(lines)


def _meaning(concept: str, scale: float, name: str, default: Any) -> str:
    what = name.rpartition(".")[2] if concept == "extra" else concept
    factor = f" = {scale:g} × the value" if scale != 1 else ""
    return f"{what}{factor}" + (f" (default {default})" if default is not None else "")


_COLUMNS = {
    "N": ("num_envs", "workers"),
    "T or N·T": ("num_steps", "rollout_size"),
    "M or K": ("trajectories", "minibatch_size", "num_minibatches"),
    "epochs": ("num_epochs",),
    "budget": ("num_updates", "total_timesteps", "vector_steps"),
}
_LANGUAGE_COLUMNS = {
    "prompts": ("num_prompts",),
    "generations": ("num_generations",),
    "minibatch": ("prompts_per_minibatch", "minibatch_size", "num_minibatches", "gradient_accumulation_steps"),
    "micro-batch": ("microbatch_size",),
    "epochs": ("num_epochs",),
    "budget": ("num_updates", "optimizer_steps", "total_timesteps", "data_epochs"),
}


def _table(known: list[Dialect], columns: dict[str, tuple[str, ...]]) -> str:
    """Return a table with one row per dialect: its keys, and how it treats a remainder."""
    rows: list[tuple[str, ...]] = [("dialect", *columns, "remainder")]
    for dialect in known:
        named = {key.concept: key.leaf for key in dialect.keys if key.concept != EXTRA}
        names = [next((named[concept] for concept in cell if concept in named), "–") for cell in columns.values()]
        rows.append((dialect.name, *names, dialect.remainder.value))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
