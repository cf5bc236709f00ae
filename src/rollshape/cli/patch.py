"""`rollshape patch`: make the sizes in a config file valid."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rollshape.cli.flags import parse
from rollshape.cli.run_flags import RunArgs
from rollshape.errors import RequestError
from rollshape.files import rewrite_text
from rollshape.geometry.dialects.patch import patch_source
from rollshape.geometry.dialects.sources import load


@dataclass(frozen=True, kw_only=True)
class PatchArgs(RunArgs):
    """Make the sizes in a config file valid. Only invalid values change; comments and layout are kept."""

    config: Annotated[str, "YAML, JSON, TOML, INI or Python file"]
    dialect: Annotated[str | None, "dialect of the file"] = None
    key: Annotated[str | None, "level of a nested file"] = None
    dry_run: Annotated[bool, "print the change without writing the file"] = False


def run(argv: Sequence[str]) -> None:
    args = parse(PatchArgs, "patch", argv)
    if args.dialect is None:
        raise RequestError("flags", "patch needs --dialect.", "`rollshape dialects` lists the names.")
    if args.config == "-":
        raise RequestError("flags", "patch cannot change stdin.", "Give a file.")
    result = patch_source(load(args.config, args.key), args.dialect, args.facts())
    write = bool(result.edits) and not args.dry_run
    if write:
        rewrite_text(Path(args.config), result.text)
    from rollshape.cli.output import print_json, show_findings

    if args.json:
        print_json(result.to_dict(is_written=write))
        return
    print(result.diff or f"{args.config} is already valid.")
    print(result.fit.block())
    if result.fit.learning_rate_note():
        print(f"[INFO]: {result.fit.learning_rate_note()}")
    show_findings((finding for finding in result.fit.plan.findings if finding.severity != "info"), to_stderr=True)
    for line in (*result.comments, *result.notes):
        print(f"# {line}", file=sys.stderr)
    if result.edits:
        print("written" if write else "dry run, nothing written")
