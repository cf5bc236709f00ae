"""Python configs, read by their syntax tree and never imported: classes, ConfigDicts, dicts, argparse.

Every class, every function that returns a mapping and every mapping of the file is one level of the values. A base
class or constant that another file defines is looked up in that file, if it is in the same source tree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from rollshape.errors import RequestError, did_you_mean
from rollshape.geometry.dialects.sources.classes import Classes
from rollshape.geometry.dialects.sources.expressions import KNOWN_CLASSES, Unknown
from rollshape.geometry.dialects.sources.source import (
    NOT_CONSTANT,
    ConfigSection,
    ConfigSource,
    Edit,
    Path,
    Span,
    check_edited,
    replace_spans,
)
from rollshape.geometry.dialects.sources.sourcetree import SourceTree, parse_tree
from rollshape.geometry.dialects.sources.statements import Raised

_CONFIG_WORDS = ("config", "cfg", "param", "hyper", "args", "setting")
_ENV_PARAMETERS = ("env_name", "env_id", "env", "task", "task_name", "environment")
_ALGORITHM = "algo"  # the name of a function or class often says which algorithm its config is for
_OTHER_FUNCTIONS = ("vision", "sac")  # of Playground's files, unless --key names the function


def parse(text: str, name: str, key: str | None = None, path: FilePath | None = None) -> ConfigSource:
    """Read a Python config; `key` selects a class, a function, an environment or `function.environment`."""
    given = key
    try:
        levels, notes, key = _read(text, name, given, None if path is None else path.resolve())
    except RecursionError:
        raise RequestError("file", f"{name} is nested too deeply.", "Give a config file.") from None
    if not levels and given:
        raise RequestError("level", f"{name} has no config for {given}.", "Leave out --key to see what it contains.")
    if not levels:
        raise RequestError(
            "file",
            f"{name} is Python without a config that I know (config class, dataclass, ConfigDict, dict, argparse).",
            "Give the file that defines the sizes, or the command line that starts the training.",
        )
    values = {level: _plain(section) for level, section in levels.items()}
    spans = dict(_spans(levels))

    def edit(edits: Iterable[Edit]) -> str:
        edits = list(edits)
        edited = replace_spans(text, spans, edits, name, "None")
        check_edited(values, parse(edited, name, given, path).values, edits, name)
        return edited

    return ConfigSource("Python", name, text, values, tuple(notes), key, edit)


def _read(
    text: str, name: str, key: str | None, path: FilePath | None
) -> tuple[dict[str, ConfigSection], list[str], str | None]:
    """Return the levels of a file, notes, and the part of the key that is left to select a level."""
    file = SourceTree().open(text, path, name)
    levels = {}
    for name_ in file.classes:
        section = file.new_instance(name_, file.scope)
        if section:
            levels[name_] = section
    levels |= {name_: section for name_, section in file.scope.items() if _is_config(section)}
    notes = _join_environments(levels)
    functions = {
        name_: node for name_, node in file.functions.items() if any(word in name_.lower() for word in _CONFIG_WORDS)
    }
    function, environment, key = _split_key(key, levels, functions)
    chosen = [function] if function else list(functions)
    if environment and not function:
        chosen = [name_ for name_ in chosen if not any(word in name_ for word in _OTHER_FUNCTIONS)] or chosen
    for section in levels.values():
        if section.origin.endswith(("Config", ".train")) and section.origin not in file.classes:
            section.setdefault(_ALGORITHM, section.origin.removesuffix("Config"))  # RLlib, functools.partial(ppo.train)
    for name_ in chosen:
        levels |= _function_levels(file, functions[name_], environment, notes)
    if not levels and (section := _argparse_defaults(file, text)):
        levels["arguments"] = section
    return levels, notes, key


def _is_config(value: Any) -> bool:
    """Return whether a value of the module is a mapping of settings, not an optimizer or another object."""
    if not isinstance(value, ConfigSection) or not value:
        return False
    return value.origin in KNOWN_CLASSES or value.origin.endswith(("Config", "Cfg", "Args", ".train"))


def _split_key(
    key: str | None, levels: Mapping[str, Any], functions: Mapping[str, Any]
) -> tuple[str | None, str | None, str | None]:
    """Return (function, environment, level to select) of a key."""
    if key is None or not functions:
        return None, None, key
    head, _, rest = key.partition(".")
    if head in levels:
        return None, None, key
    if head in functions:
        return head, rest or None, head
    return None, key, None


def _function_levels(
    file: Classes, node: ast.FunctionDef, environment: str | None, notes: list[str]
) -> dict[str, ConfigSection]:
    """Return the mappings that a function returns: for an environment, or for each one that it names."""
    parameter = next((arg.arg for arg in node.args.args if arg.arg in _ENV_PARAMETERS), None)
    named = list(dict.fromkeys(_compared_texts(node, parameter))) if parameter else []
    if environment is not None and parameter:
        section = _result(file, node, {parameter: environment})
        if section is not None and not any(environment.startswith(text) for text in named):
            hint = did_you_mean(environment, named)
            notes.append(f"{node.name} does not name {environment}: its default values are used. {hint}".strip())
        return {node.name: section} if section else {}
    if not named:
        section = _result(file, node, {})
        return {node.name: section} if section else {}
    sections = {text: _result(file, node, {str(parameter): text}) for text in named}
    group = ConfigSection(origin=node.name)
    for text, section in sections.items():
        if section:
            group.put(text, section)
    return {node.name: group} if group else {}


def _result(file: Classes, node: ast.FunctionDef, arguments: Mapping[str, Any]) -> ConfigSection | None:
    scope = dict(file.scope)
    parameters = node.args.args
    defaults = node.args.defaults
    for arg, default in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True):
        scope[arg.arg] = file.value(default, file.scope)
    scope |= {arg.arg: Unknown(arg.arg) for arg in parameters if arg.arg not in scope}
    scope.update(arguments)
    try:
        value = file.call(node, scope)
    except Raised:
        return None
    if isinstance(value, ConfigSection):
        value.setdefault(_ALGORITHM, node.name)
    return value if isinstance(value, ConfigSection) else None


def _compared_texts(node: ast.FunctionDef, parameter: str | None) -> Iterator[str]:
    """Yield the environments that a function compares its parameter with."""
    for part in ast.walk(node):
        operands: list[ast.expr] = []
        if isinstance(part, ast.Compare) and isinstance(part.left, ast.Name) and part.left.id == parameter:
            operands = part.comparators
        elif isinstance(part, ast.Call) and ast.unparse(part.func) == f"{parameter}.startswith":
            operands = part.args
        for operand in operands:
            for leaf in ast.walk(operand):
                if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                    yield leaf.value


def _join_environments(levels: dict[str, ConfigSection]) -> list[str]:
    """Add the number of environments of legged_gym's `XCfg` to the training config `XCfgPPO` of the same file."""
    notes = []
    for name, section in list(levels.items()):
        partner = levels.get(name.removesuffix("PPO")) if name.endswith("PPO") else None
        env = None if partner is None else partner.get("env")
        if isinstance(env, ConfigSection) and "num_envs" in env and "env" not in section:
            joined = ConfigSection(origin="env")
            joined.put("num_envs", env["num_envs"], env.spans.get("num_envs"))
            section.put("env", joined)
            del levels[name.removesuffix("PPO")]
            notes.append(f"num_envs of {name} is that of {name.removesuffix('PPO')}.env")
    return notes


def _argparse_defaults(file: Classes, text: str) -> ConfigSection:
    """Return the defaults of the flags that a script defines with argparse."""
    section = ConfigSection(origin="ArgumentParser")
    for node in ast.walk(parse_tree(text, file.name)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        flags = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        flag = next((flag for flag in flags if flag.startswith("--")), None)
        default = next((keyword.value for keyword in node.keywords if keyword.arg == "default"), None)
        if node.func.attr == "add_argument" and flag and default is not None:
            section.put(flag[2:].replace("-", "_"), file.value(default, file.scope), file.span(default))
    return section


def _plain(value: Any) -> Any:
    if isinstance(value, Unknown):
        return NOT_CONSTANT + value.text
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, ConfigSection):
        return ConfigSection({name: _plain(item) for name, item in value.items()}, value.origin, value.incomplete)
    return value


def _spans(section: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Span | None]]:
    for name, value in section.items():
        if isinstance(value, ConfigSection):
            yield from _spans(value, (*path, name))
        else:
            yield (*path, name), getattr(section, "spans", {}).get(name)
