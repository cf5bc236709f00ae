"""The functions behind the page, as JSON in and JSON out. Pure Python on `geometry`: Pyodide runs it in the browser.

`plan`, `translate`, `patch`, `rescale`, `dialects` and `explain` return the documents of the commands. `planner`,
`written`, `targets`, `config` and `rescaled` are views of the page, which combine several of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import fields, replace
from typing import Any

from rollshape.errors import RequestError, did_you_mean
from rollshape.geometry.algorithms import ALGORITHMS
from rollshape.geometry.dialects import rescale, translate
from rollshape.geometry.dialects.comments import review_comments
from rollshape.geometry.dialects.describe import describe, find_dialects
from rollshape.geometry.dialects.patch import patch_source, unified_diff
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import read
from rollshape.geometry.dialects.recognize import recognize
from rollshape.geometry.dialects.registry import ALL_DIALECTS, resolve
from rollshape.geometry.dialects.rrd import RrdDialect
from rollshape.geometry.dialects.sources.load import parse_text
from rollshape.geometry.dialects.sources.source import ConfigSource
from rollshape.geometry.dialects.text import as_yaml
from rollshape.geometry.machine import Machine, assume_machine
from rollshape.geometry.plan import plan
from rollshape.geometry.request import Request
from rollshape.geometry.rules import PAGES, explain_document
from rollshape.typed import parse_json
from rollshape.web.planner import dialect_document, dialect_names, planner_document

Arguments = dict[str, Any]
Document = Any  # JSON-ready values
LONGEST_TEXT = 1_000_000  # characters of a config
DEEPEST_BRACKETS = 100
_FACTS = ("num_envs", "num_agents", "world_size", "recurrent", "seq_length")
_REQUEST = tuple(field.name for field in fields(Request))


def answer(name: str, arguments: str) -> str:
    """Answer one call of the page: the name of a function and its arguments as JSON; an error is a document, too."""
    try:
        document = call(name, _object(parse_json(arguments)))
    except RequestError as error:
        document = {"error": error.to_dict()}
    except ValueError as error:
        document = {"error": RequestError("argument", f"The arguments are not JSON: {error}.").to_dict()}
    return json.dumps(document, allow_nan=False)


def call(name: str, arguments: Arguments) -> Document:
    """Return the document of a function; a RequestError if the request is wrong."""
    if name not in FUNCTIONS:
        hint = did_you_mean(name, FUNCTIONS)
        raise RequestError("choice", f"Unknown function {name!r}.", f"{hint}Functions: {', '.join(FUNCTIONS)}.")
    machine = _machine(arguments.pop("machine", None))
    try:
        with assume_machine(machine) if machine else nullcontext():
            return FUNCTIONS[name](arguments)
    except RecursionError:
        raise RequestError("file", "The config is nested too deeply.", "Give a training config.") from None


def _object(value: Any) -> Arguments:
    if not isinstance(value, dict):
        raise RequestError("argument", "The arguments must be a JSON object.", "Give names and values.")
    return value


def _machine(value: Any) -> Machine | None:
    """Return the machine to plan for: {"cores": 8, "memory_bytes": 16e9}, or None for this one."""
    if value is None:
        return None
    document = _object(value)
    cores, memory = document.get("cores", 1), document.get("memory_bytes")
    if type(cores) is not int or cores < 1 or not (memory is None or (type(memory) is int and memory > 0)):
        raise RequestError("argument", "A machine has cores and memory_bytes, both whole numbers.", "Leave it out.")
    return Machine(cores, memory)


def _refuse_unknown(arguments: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in arguments:
        if name not in known:
            hint = did_you_mean(name, known)
            raise RequestError("argument", f"Unknown argument {name!r}.", f"{hint}Arguments: {', '.join(known)}.")


def _plan(arguments: Arguments) -> Document:
    diagram = arguments.pop("diagram", None)
    result = plan(**_sequences(arguments))
    if diagram is None:
        return result.to_dict()
    from rollshape.geometry.diagram import mermaid, svg, text

    kinds: dict[str, Callable[..., str]] = {"text": text, "mermaid": mermaid, "svg": svg}
    if diagram not in kinds:
        raise RequestError("choice", f"Unknown diagram {diagram!r}.", f"Use one of {', '.join(kinds)}.")
    return result.to_dict() | {"diagram": kinds[diagram](result)}


def _sequences(arguments: Arguments) -> Arguments:
    """Return the arguments with lists as tuples, as Request takes them."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in arguments.items()}


def _planner(arguments: Arguments) -> Document:
    is_vertical = arguments.pop("vertical", False) is True
    with_fixes = arguments.pop("fixes", False) is True
    _refuse_unknown(arguments, _REQUEST)
    return planner_document(_sequences(arguments), vertical=is_vertical, with_fixes=with_fixes)


def _written(arguments: Arguments) -> Document:
    """Return the plan of the controls as the config of the library `to`."""
    target = _name(arguments, "to")
    _refuse_unknown(arguments, _REQUEST)
    return dialect_document(_sequences(arguments), target)


def _targets(arguments: Arguments) -> Document:
    """Return the names of the libraries that a plan of the algorithm can be written for."""
    algo = arguments.pop("algo", "ppo")
    _refuse_unknown(arguments, ())
    if algo not in ALGORITHMS:
        raise RequestError("choice", f"Unknown algorithm {algo!r}.", f"Use one of {', '.join(ALGORITHMS)}.")
    return dialect_names(algo)


def _source(arguments: Arguments) -> ConfigSource:
    text, name = arguments.pop("text", None), arguments.pop("name", "stdin")
    key = arguments.pop("key", None)
    if not isinstance(text, str) or not isinstance(name, str) or not isinstance(key, str | None):
        raise RequestError("argument", "text, name and key must be text.", "Give the text of the config.")
    if len(text) > LONGEST_TEXT:
        raise RequestError(
            "file", f"The config has {len(text):,} characters; at most {LONGEST_TEXT:,} are read.", "Give a config."
        )
    if _bracket_depth(text) > DEEPEST_BRACKETS:  # a YAML parser would take minutes to find out
        raise RequestError("file", "The config is nested too deeply.", "Give a training config.")
    if not text.strip():
        raise RequestError("file", "The config is empty.", "Paste a training config, or the command line of a run.")
    return parse_text(text, name.replace("\\", "/").rpartition("/")[2] or "stdin", key)


def _bracket_depth(text: str) -> int:
    """Return how many brackets are open at once, at most."""
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _facts(arguments: Arguments) -> dict[str, Any]:
    facts = {name: arguments.pop(name, None) for name in _FACTS}
    return facts | {"recurrent": facts["recurrent"] or None}


def _name(arguments: Arguments, name: str) -> str:
    value = arguments.pop(name, None)
    if not isinstance(value, str):
        raise RequestError("argument", f"{name} must be the name of a dialect.", "`dialects` lists the names.")
    return value


def _file(source: ConfigSource) -> str | None:
    return None if source.name == "stdin" else source.name


def _translate(arguments: Arguments) -> Document:
    """`values` is a config, or `text` the text of one."""
    origin, target, strict = _name(arguments, "from"), _name(arguments, "to"), arguments.pop("strict", False) is True
    values, facts = arguments.pop("values", None), _facts(arguments)
    source = None if values is not None else _source(arguments)
    _refuse_unknown(arguments, ())
    config = _object(values) if source is None else source.values
    key, file = (None, None) if source is None else (source.key, source.name)
    result = translate(config, origin, target, key=key, file=file, strict=strict, **facts)
    result = replace(result, notes=(*(source.notes if source else ()), *result.notes))
    return result.to_dict()


def _patch(arguments: Arguments) -> Document:
    dialect, facts = _name(arguments, "dialect"), _facts(arguments)
    source = _source(arguments)
    _refuse_unknown(arguments, ())
    return patch_source(source, dialect, facts).to_dict(is_written=False)


def _rescale(arguments: Arguments) -> Document:
    return _rescaled(arguments)["rescale"]


def _rescaled(arguments: Arguments) -> Document:
    """Return the document of `rescale`, and the new text of the config with its difference to the old one."""
    dialect, facts = _name(arguments, "dialect"), _facts(arguments)
    options = {
        name: arguments.pop(name) for name in ("from_num_envs", "from_world_size", "policy") if name in arguments
    }
    source = _source(arguments)
    _refuse_unknown(arguments, ())
    result = rescale(source.values, dialect, key=source.key, file=_file(source), **options, **facts)
    kept = True
    try:
        text = source.edit(result.edits) if result.edits else source.text
    except RequestError:
        text, kept = as_yaml(result.config), False
    text, comments = review_comments(source.text, text, source.values, result.edits)
    return {
        "rescale": result.to_dict() | {"comments": list(comments)},
        "text": text,
        "diff": unified_diff(source.text, text, source.name, "rescaled") if kept else "",
        "is_layout_kept": kept,
    }


def _config(arguments: Arguments) -> Document:
    """Recognize a config and explain it: candidates, what its library runs, and the patch that makes it valid."""
    dialect, facts = arguments.pop("dialect", None), _facts(arguments)
    source = _source(arguments)
    _refuse_unknown(arguments, ())
    candidates = recognize(source.values, key=source.key, file=source.name)
    document: dict[str, Any] = {"kind": source.kind, "candidates": [entry._asdict() for entry in candidates]}
    chosen = dialect or (candidates[0].dialect if candidates else None)
    if chosen is None:
        raise RequestError(
            "other-dialect",
            f"The {source.kind} text contains no key of a library that Rollshape knows.",
            "Paste the training config: the part with the number of environments, steps and minibatches.",
        )
    document |= {"dialect": chosen, "patch": None, "text": None, "error": None, "runs": None}
    try:
        if isinstance(ALL_DIALECTS.get(chosen), RrdDialect):
            document["runs"] = {"plan": translate(source.values, chosen, "rollshape", key=source.key).plan.to_dict()}
            return document
        document["runs"] = _as_is(source, chosen, facts)
        patched = patch_source(source, chosen, facts)
        document |= {"patch": patched.to_dict(is_written=False), "text": patched.text}
    except RequestError as error:
        document["error"] = error.to_dict()
    return document


def _as_is(source: ConfigSource, dialect: str, facts: dict[str, Any]) -> Document:
    """Return what the library does with the config as it is, or the error that it ends with."""
    library = resolve(dialect, source.values, key=source.key, file=source.name)
    config = read(
        source.values, library, key=source.key, file=source.name, candidates=ALL_DIALECTS, hyper=False, **facts
    )
    try:
        plan_document = predict(library, config.recipe).to_dict()
    except RequestError as error:
        return {"error": error.to_dict()}
    return {"plan": plan_document, "defaults": list(config.defaults)}


def _dialects(arguments: Arguments) -> Document:
    name = arguments.pop("name", None)
    _refuse_unknown(arguments, ())
    return [describe(dialect) for dialect in find_dialects(name)]


def _explain(arguments: Arguments) -> Document:
    name = arguments.pop("rule", None)
    _refuse_unknown(arguments, ())
    return [explain_document(rule) for rule in PAGES] if name == "all" else explain_document(str(name))


FUNCTIONS: dict[str, Callable[[Arguments], Document]] = {
    "plan": _plan,
    "translate": _translate,
    "patch": _patch,
    "rescale": _rescale,
    "dialects": _dialects,
    "explain": _explain,
    "planner": _planner,
    "written": _written,
    "targets": _targets,
    "config": _config,
    "rescaled": _rescaled,
}
