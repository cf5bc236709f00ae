"""`rollshape plan`: compute a valid plan from any batch sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Annotated, Literal

from rollshape.cli.flags import CommonArgs, parse
from rollshape.geometry.completions import COMPLETION_ALGORITHMS
from rollshape.geometry.plan import Plan, plan
from rollshape.geometry.request import Request


@dataclass(frozen=True, kw_only=True)
class PlanArgs(Request, CommonArgs):
    """Compute all batch sizes of a run from any subset of them, and check them against rules of thumb.

    Language models (--algo grpo, --algo rloo) have flags of their own: see rollshape plan --algo grpo --help.
    """

    env: Annotated[str | None, "environment id, to determine spaces, episode length and memory"] = None
    diagram: Annotated[Literal["text", "mermaid", "svg"] | None, "print a diagram instead of the table"] = None
    explain: Annotated[str | None, "print the documentation of a rule and the evidence for it (`all` for a list)"] = (
        None
    )


def run(argv: Sequence[str]) -> None:
    if _algorithm(argv) in COMPLETION_ALGORITHMS:
        from rollshape.cli import plan_completions

        plan_completions.run(argv)
        return
    args = parse(PlanArgs, "plan", argv)
    if args.explain is not None:
        _explain(args.explain, as_json=args.json)
        return
    request = Request(**{field.name: getattr(args, field.name) for field in fields(Request)})
    if args.env is not None:
        request = _with_environment(request, args.env)
    result = plan(request)
    diagram = _diagram(args.diagram, result)
    if args.json:
        from rollshape.cli.output import print_json

        print_json(result.to_dict() | ({"diagram": diagram} if diagram else {}))
    elif diagram:
        print(diagram)
    else:
        from rollshape.cli.output import show_plan

        show_plan(result)


def _algorithm(argv: Sequence[str]) -> str | None:
    """Return the value of --algo, which decides what the other flags are."""
    joined = [token.partition("=")[2] for token in argv if token.startswith("--algo=")]
    apart = [value for flag, value in pairwise(argv) if flag == "--algo"]
    return next(iter(joined + apart), None)


def _with_environment(request: Request, env: str) -> Request:
    from rollshape.envs.inspect import inspect_environment

    env_fields = {name: value for name, value in inspect_environment(env).items() if value is not None}
    defaults = {field.name: field.default for field in fields(Request)}
    return replace(request, **{k: v for k, v in env_fields.items() if getattr(request, k) == defaults[k]})


def _diagram(kind: str | None, result: Plan) -> str:
    if kind is None:
        return ""
    from rollshape.geometry.diagram import mermaid, svg, text

    return {"text": text, "mermaid": mermaid, "svg": svg}[kind](result)


def _explain(name: str, *, as_json: bool) -> None:
    from rollshape.cli.output import print_json
    from rollshape.geometry.rules import PAGES, explain, explain_document
    from rollshape.geometry.rules.claims import claims_about

    if as_json:
        print_json([explain_document(rule) for rule in PAGES] if name == "all" else explain_document(name))
    elif name == "all":
        for page in PAGES.values():
            print(f"{page.rule:<24}{page.text.splitlines()[0]}")
    else:
        page = explain(name)
        print(f"{page.rule}\n\n{page.text}\n\nSource: {page.source}.")
        claims = claims_about(name)
        if claims:
            print("\nClaims and what was measured about them (differences with 95 % intervals):")
        for claim in claims:
            print("\n" + "\n".join(claim.lines()))
