"""`rollshape reproduce`: run again, and report the first difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rollshape.cli.flags import CommonArgs, parse


@dataclass(frozen=True, kw_only=True)
class ReproduceArgs(CommonArgs):
    """Run a finished run again and compare metrics and parameters bit for bit; exit code 1 if they differ."""

    run_dir: Annotated[str, "a run directory"]


def run(argv: Sequence[str]) -> int:
    args = parse(ReproduceArgs, "reproduce", argv)
    from rollshape.cli.output import print_json
    from rollshape.training.reproduce import reproduce

    found = reproduce(Path(args.run_dir))
    if args.json:
        print_json(found.to_dict())
    else:
        for name, (then, now) in found.versions.items():
            print(f"note: {name} was {then}, is {now}: a difference may come from that")
        print(
            f"{found.rows} rows and {found.arrays} arrays are identical"
            if found.same
            else f"differs: {found.difference}"
        )
    return 0 if found.same else 1
