"""`rollshape plan`: any N and T to a legal, explained plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Literal

from rollshape.cli.flags import CommonArgs, parse
from rollshape.geometry.plan import Plan, plan
from rollshape.geometry.request import Request


@dataclass(frozen=True, kw_only=True)
class PlanArgs(Request, CommonArgs):
    """Plan a rollout: any subset of the sizes gives a full, legal plan with its reasons."""

    env: Annotated[str | None, "environment id: its spaces, episode length and memory are measured"] = None
    diagram: Annotated[Literal["text", "mermaid", "svg"] | None, "draw rollout → minibatches → updates"] = None
    explain: Annotated[str | None, "print the page of a rule (`all` lists them)"] = None


def run(argv: Sequence[str]) -> None:
    args = parse(PlanArgs, "plan", argv)
    if args.explain is not None:
        _explain(args.explain, as_json=args.json)
        return
    request = Request(**{field.name: getattr(args, field.name) for field in fields(Request)})
    if args.env is not None:
        request = _with_environment(request, args.env)
    result = plan(request)
    drawing = _draw(args.diagram, result)
    if args.json:
        from rollshape.cli.output import print_json

        print_json(result.to_dict() | ({"diagram": drawing} if drawing else {}))
    elif drawing:
        print(drawing)
    else:
        from rollshape.cli.output import show_plan

        show_plan(result)


def _with_environment(request: Request, env: str) -> Request:
    from rollshape.envs.inspect import inspect_environment

    measured = {name: value for name, value in inspect_environment(env).items() if value is not None}
    defaults = {field.name: field.default for field in fields(Request)}
    return replace(request, **{k: v for k, v in measured.items() if getattr(request, k) == defaults[k]})


def _draw(kind: str | None, result: Plan) -> str:
    if kind is None:
        return ""
    from rollshape.geometry.diagram import mermaid, svg, text

    return {"text": text, "mermaid": mermaid, "svg": svg}[kind](result)


def _explain(name: str, *, as_json: bool) -> None:
    from rollshape.cli.output import print_json
    from rollshape.geometry.rules import PAGES, explain

    pages = list(PAGES.values()) if name == "all" else [explain(name)]
    if as_json:
        documents = [{"rule": page.rule, "source": page.source, "text": page.text} for page in pages]
        print_json(documents if name == "all" else documents[0])
        return
    for page in pages:
        if name == "all":
            print(f"{page.rule:<24}{page.text.splitlines()[0]}")
        else:
            print(f"{page.rule}\n\n{page.text}\n\nSource: {page.source}.")
