"""`rollshape translate`: translate a config from one library to another."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from rollshape.cli.flags import parse
from rollshape.cli.run_flags import RunArgs
from rollshape.errors import RequestError
from rollshape.geometry.dialects import translate
from rollshape.geometry.dialects.sources import load
from rollshape.geometry.dialects.text import as_yaml
from rollshape.geometry.dialects.translate import NO_COUNTERPART
from rollshape.geometry.plan import Plan


@dataclass(frozen=True, kw_only=True)
class TranslateArgs(RunArgs):
    """Translate a config from one library to another; `rollshape dialects` lists the libraries."""

    config: Annotated[str, "config file (YAML, JSON, TOML, INI, Python), run folder, SB3 model, command line, or -"]
    from_: Annotated[str | None, "dialect of the config"] = None
    to: Annotated[str | None, "target dialect"] = None
    key: Annotated[str | None, "level of the config: an environment, a class, or for example params.config"] = None
    strict: Annotated[bool, "fail if the target cannot express the shape"] = False


def run(argv: Sequence[str]) -> None:
    args = parse(TranslateArgs, "translate", argv)
    if args.from_ is None or args.to is None:
        raise RequestError("flags", "translate needs --from and --to.", "`rollshape dialects` lists the names.")
    source = load(args.config, args.key)
    result = translate(
        source.values, args.from_, args.to, key=source.key, strict=args.strict, file=source.name, **args.facts()
    )
    result = replace(result, notes=(*source.notes, *result.notes))
    from rollshape.cli.output import print_json, show_findings

    if args.json:
        print_json(result.to_dict())
        return
    print(as_yaml(result.config), end="")
    plan = result.plan
    updates = (
        "" if plan.num_updates is None else f", {plan.num_updates:,} updates, {plan.gradient_steps:,} gradient steps"
    )
    print(
        f"# {args.to} will run {_describe_rollout(plan)} per update, in "
        f"minibatches of {plan.minibatch_size:,}, {plan.num_epochs:,} epochs{updates}",
        file=sys.stderr,
    )
    untranslated = [line.partition(":")[0] for line in result.not_preserved if f": {NO_COUNTERPART} " in line]
    for line in result.not_preserved:
        if line.partition(":")[0] not in untranslated:
            print(f"# not preserved: {line}", file=sys.stderr)
    if untranslated:
        print(f"# not preserved, {NO_COUNTERPART} {args.to}: {', '.join(untranslated)}", file=sys.stderr)
    for line in result.notes:
        print(f"# note: {line}", file=sys.stderr)
    show_findings((finding for finding in plan.findings if finding.rule == "remainder"), to_stderr=True)


def _describe_rollout(plan: Plan) -> str:
    sizes = plan.completions
    if sizes is None:
        return f"{plan.shape} samples"
    return f"{sizes.num_prompts:,} prompts × {sizes.num_generations:,} generations = {plan.rollout_size:,} completions"
