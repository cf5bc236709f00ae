"""`rollshape reproduce`: repeat a run and report the first difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rollshape.cli.env_flags import EnvArgs, TrustArgs, calling_envs
from rollshape.cli.flags import parse


@dataclass(frozen=True, kw_only=True)
class ReproduceArgs(TrustArgs, EnvArgs):
    """Run a finished run again and compare metrics and parameters bit for bit; exit code 1 if they differ.

    This imports the module that the run names as its environment, and so executes it; a module that is not an installed
    package needs --trust.
    """

    run_dir: Annotated[str, "a run directory"]


def run(argv: Sequence[str]) -> int:
    args = parse(ReproduceArgs, "reproduce", argv)
    from rollshape.cli.output import print_json
    from rollshape.training.reproduce import reproduce

    with calling_envs(args.json):
        comparison = reproduce(
            Path(args.run_dir), trust=args.trust, env_timeout=args.env_timeout, isolate_env=args.isolate_env
        )
    if args.json:
        print_json(comparison.to_dict())
    else:
        for name, (then, now) in comparison.versions.items():
            print(f"note: {name} was {then} and is now {now}; this may explain a difference")
        print(
            f"{comparison.rows} rows and {comparison.arrays} arrays are identical"
            if comparison.same
            else f"differs: {comparison.difference}"
        )
    return 0 if comparison.same else 1
