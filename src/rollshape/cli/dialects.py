"""`rollshape dialects`: the libraries that are spoken, and what each does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from rollshape.cli.flags import CommonArgs, parse
from rollshape.geometry.dialects import DIALECTS, resolve
from rollshape.geometry.dialects.base import SHAPE_CONCEPTS, Dialect
from rollshape.geometry.dialects.rrd import RRD


@dataclass(frozen=True, kw_only=True)
class DialectsArgs(CommonArgs):
    """List the dialects; with --name, everything known of one."""

    name: Annotated[str | None, "show one dialect in full"] = None


def run(argv: Sequence[str]) -> None:
    args = parse(DialectsArgs, "dialects", argv)
    known: list[Dialect] = [*DIALECTS.values(), RRD()]
    if args.name is not None:
        known = [RRD() if args.name == "rrd" else resolve(args.name, None)]
    from rollshape.cli.output import print_json

    if args.json:
        print_json([describe(dialect) for dialect in known])
    elif args.name is not None:
        for field, value in describe(known[0]).items():
            shown = value if not isinstance(value, (dict, list)) else ""
            print(f"{field + ':':<26}{shown}")
            for item in value.items() if isinstance(value, dict) else value if isinstance(value, list) else ():
                print(f"  {item[0]:<38} {item[1]}" if isinstance(item, tuple) else f"  {item}")
    else:
        print(_table(known))


def describe(dialect: Dialect) -> dict[str, Any]:
    """A dialect as plain values."""
    return {
        "name": dialect.name,
        "library": dialect.library,
        "version": dialect.version,
        "keys": {key.name: _meaning(key.concept, key.scale, key.name, key.default) for key in dialect.keys},
        "remainder": dialect.remainder.value,
        "remainder_detail": dialect.remainder_detail,
        "budget": "rounds up" if dialect.rounds_up else "rounds down",
        "shuffle": dialect.shuffle.value,
        "advantage_normalisation": dialect.normalise.value,
        "time_limit": dialect.time_limit.value,
        "notes": list(dialect.notes),
    }


def _meaning(concept: str, scale: float, name: str, default: Any) -> str:
    what = name.rpartition(".")[2] if concept == "extra" else concept
    factor = f" = {scale:g} × the value" if scale != 1 else ""
    return f"{what}{factor}" + (f" (default {default})" if default is not None else "")


def _table(known: list[Dialect]) -> str:
    """A row a dialect: its keys, and what becomes of a remainder."""
    cells = (
        ("num_envs", "workers"),
        ("num_steps", "rollout_size"),
        ("minibatch_size", "num_minibatches"),
        ("num_epochs",),
        ("num_updates", "total_timesteps", "vector_steps"),
    )
    rows: list[tuple[str, ...]] = [("dialect", "N", "T or N·T", "M or K", "epochs", "budget", "remainder")]
    for dialect in known:
        named = {key.concept: key.leaf for key in dialect.keys if key.concept in SHAPE_CONCEPTS}
        found = [next((named[concept] for concept in cell if concept in named), "–") for cell in cells]
        rows.append((dialect.name, *found, dialect.remainder.value))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
