"""`rollshape patch`: make the sizes in a config file valid."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from rollshape.cli.flags import parse
from rollshape.cli.run_flags import RunArgs
from rollshape.errors import RequestError
from rollshape.files import rewrite_text
from rollshape.geometry.dialects import fit
from rollshape.geometry.dialects.comments import review_comments
from rollshape.geometry.dialects.sources import Edit, load


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
    file, facts = load(args.config, args.key), args.facts()
    result = fit(file.values, args.dialect, key=file.key, file=file.name, **facts)
    flags = [change for change in result.edits if change.path in file.kept and change.value == facts.get("num_envs")]
    result = replace(result, edits=tuple(change for change in result.edits if change not in flags))
    text = file.edit(result.edits) if result.edits else file.text
    text, comments = review_comments(file.text, text, file.values, result.edits)
    notes = [*result.notes, *file.notes, *(_kept(change, file.kept[change.path]) for change in flags)]
    diff = "\n".join(
        difflib.unified_diff(
            file.text.splitlines(), text.splitlines(), args.config, f"{args.config} (patched)", lineterm=""
        )
    )
    write = bool(result.edits) and not args.dry_run
    if write:
        rewrite_text(Path(args.config), text)
    from rollshape.cli.output import print_json, show_findings

    if args.json:
        changes = {".".join(change.path): change.value for change in result.edits}
        document = {"changes": changes, "diff": diff, "written": write, "plan": result.plan.to_dict()}
        document |= {"reason": result.reason, "learning_rate": result.learning_rate_note()}
        print_json(document | {"comments": list(comments), "notes": notes})
        return
    print(diff or f"{args.config} is already valid.")
    print(result.block())
    if result.learning_rate_note():
        print(f"[INFO]: {result.learning_rate_note()}")
    show_findings((finding for finding in result.plan.findings if finding.severity != "info"), to_stderr=True)
    for line in (*comments, *notes):
        print(f"# {line}", file=sys.stderr)
    if result.edits:
        print("written" if write else "dry run, nothing written")


def _kept(change: Edit, reference: str) -> str:
    return f"{'.'.join(change.path)} stays {reference}: start the training with {change.value} environments"
