"""`rollshape dialects`: list the supported libraries and how they use their configs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from rollshape.cli.flags import CommonArgs, parse
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.describe import describe, find_dialects
from rollshape.geometry.dialects.keys import EXTRA
from rollshape.geometry.dialects.registry import LANGUAGE_DIALECTS


@dataclass(frozen=True, kw_only=True)
class DialectsArgs(CommonArgs):
    """List the supported libraries (dialects), or show one in detail."""

    name: Annotated[str | None, "dialect to show in detail"] = None


def run(argv: Sequence[str]) -> None:
    args = parse(DialectsArgs, "dialects", argv)
    known = find_dialects(args.name)
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
