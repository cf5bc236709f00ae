"""`rollshape rescale`: what else must change in a config for another number of environments?"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from rollshape.cli.flags import parse
from rollshape.cli.run_flags import RunArgs
from rollshape.errors import RequestError
from rollshape.files import rewrite_text, write_bytes
from rollshape.geometry.dialects import rescale
from rollshape.geometry.dialects.comments import review_comments
from rollshape.geometry.dialects.policies import POLICIES, PolicyName
from rollshape.geometry.dialects.rescale import Rescaled
from rollshape.geometry.dialects.sources import ConfigSource, load
from rollshape.geometry.dialects.text import as_yaml


@dataclass(frozen=True, kw_only=True)
class RescaleArgs(RunArgs):
    """Rescale a config that works to another number of environments. Prints the new config; notes go to stderr."""

    config: Annotated[str, "config file of any kind that translate reads, or - for stdin"]
    dialect: Annotated[str | None, "dialect of the config"] = None
    num_envs: Annotated[int | None, "new number of environments, of all processes"] = None
    from_num_envs: Annotated[int | None, "number of environments that it works with, if not in the config"] = None
    world_size: Annotated[int | None, "new number of data-parallel processes (GPUs)"] = None
    from_world_size: Annotated[int | None, "number of processes that it works with (default: 1)"] = None
    policy: Annotated[PolicyName | Literal["auto"], "what is kept; auto chooses by the study `rescale`"] = "auto"
    key: Annotated[str | None, "level of a nested file, for example CartPole-v1 or params.config"] = None
    write: Annotated[bool, "change the file instead of printing the new config"] = False
    out: Annotated[str | None, "file for the new config, also as -o"] = None


def run(argv: Sequence[str]) -> None:
    args = parse(RescaleArgs, "rescale", ["--out" if token == "-o" else token for token in argv])
    if args.dialect is None:
        raise RequestError("flags", "rescale needs --dialect.", "`rollshape dialects` lists the names.")
    if args.write and (args.config == "-" or args.out is not None):
        other = "stdin cannot be changed" if args.config == "-" else "--out names another file"
        raise RequestError("flags", f"--write changes the file itself, but {other}.", "Leave one of them out.")
    file = load(args.config, args.key)
    result = rescale(
        file.values,
        args.dialect,
        from_num_envs=args.from_num_envs,
        from_world_size=args.from_world_size,
        policy=args.policy,
        key=file.key,
        file=None if args.config == "-" else file.name,
        **args.facts(),
    )
    text, comments = review_comments(file.text, _new_text(file, result, args), file.values, result.edits)
    if args.write:
        rewrite_text(Path(args.config), text)
    elif args.out is not None:
        write_bytes(Path(args.out), text.encode())
    from rollshape.cli.output import print_json

    if args.json:
        print_json(result.to_dict() | {"comments": list(comments)})
        return
    _show(result, comments, is_auto=args.policy == "auto")
    if args.write or args.out is not None:
        print(f"# written: {args.out or args.config}", file=sys.stderr)
    else:
        print(text, end="" if text.endswith("\n") else "\n")


def _new_text(file: ConfigSource, result: Rescaled, args: RescaleArgs) -> str:
    """Return the new file; where it cannot be edited in place, it is written anew, without its comments."""
    if not result.edits:
        return file.text
    try:
        return file.edit(result.edits)
    except RequestError:
        if args.write or (args.out is not None and file.kind != "YAML"):  # its text would not be of that kind
            raise
        print("# note: the file cannot be edited in place; comments and layout are not kept", file=sys.stderr)
        return as_yaml(result.config)


def _show(result: Rescaled, comments: Iterable[str], *, is_auto: bool) -> None:
    """Print the changes, the effects and the evidence to stderr, as comments."""
    lines = [f"policy {result.policy}: {POLICIES[result.policy].statement}"]
    if is_auto:
        lines.append(result.evidence.explain(result.policy))
    rows = [(change.key, _text(change.before), "→", _text(change.after), change.reason) for change in result.changes]
    lines += _table(rows) if rows else ["nothing changes"]
    lines += [f"note: {note}" for note in result.notes]
    lines += comments
    lines += result.evidence.table()
    known = {finding.rule for finding in result.before.findings}
    new = [finding for finding in result.plan.findings if finding.severity != "info" and finding.rule not in known]
    lines += [f"warning: {finding.message}" for finding in new]
    for line in lines:
        print(f"# {line}".rstrip(), file=sys.stderr)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "(not set)" if value is None else str(value)


def _table(rows: Iterable[Sequence[str]]) -> list[str]:
    rows = list(rows)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
