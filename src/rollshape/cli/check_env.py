"""`rollshape check-env`: check an environment before training on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

from rollshape.cli import FAILED
from rollshape.cli.env_flags import EnvArgs, calling_envs
from rollshape.cli.flags import parse

_COLORS = {"pass": "green", "warn": "yellow", "fail": "bold red"}


@dataclass(frozen=True, kw_only=True)
class CheckEnvArgs(EnvArgs):
    """Check an environment with random actions: spaces, seeds, finite values, resets, time limit and truncation; of
    functional environments also whether they are pure. The exit code is 1 if a check fails.
    """

    env: Annotated[str, "environment id, also module:Name of a class or function in the current folder"]
    env_kwargs: Annotated[dict[str, Any] | None, "options of the environment, as name=value …"] = None
    steps: Annotated[int | None, "steps per environment (default: two episodes, at most 2000)"] = None
    seed: Annotated[int, "seed of resets and actions"] = 0


def run(argv: Sequence[str]) -> int:
    args = parse(CheckEnvArgs, "check-env", argv)
    from rollshape.cli.output import console, print_json
    from rollshape.envs.check import check_env

    options = {item.name: getattr(args, item.name) for item in fields(args) if item.name not in ("env", "json")}
    with calling_envs(args.json):
        report = check_env(args.env, **options)
    if args.json:
        print_json(report.to_dict())
        return 0 if report.passed else FAILED
    from rich.markup import escape

    out = console()
    for number, line in enumerate(str(report).split("\n")):
        status = line.partition(" ")[0]
        color = "bold" if number == 0 else _COLORS.get(status, "")
        head, rest = (line, "") if number == 0 else (line[:5], line[5:])
        out.print(f"[{color}]{escape(head)}[/]{escape(rest)}" if color else escape(line))
    return 0 if report.passed else FAILED
