"""Reading YAML or JSON safely, and editing single values in place.

Nothing in a file is executed: nodes are converted to plain values here, and only the standard YAML tags are allowed.
An edit replaces the characters of one value, so comments, order, quoting and layout are preserved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rollshape.errors import RequestError

DEEPEST = 64
MOST_VALUES = 200_000
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = {_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp", "merge")}
_TUPLE = _TAG + "python/tuple"  # written by Isaac Lab and rl-zoo; read as a list


@dataclass(frozen=True)
class ConfigFile:
    """A config file: its text, its plain values, and the YAML nodes with the position of each value."""

    text: str
    values: dict[str, Any]
    root: Any

    def line(self, path: Iterable[str | int]) -> int:
        """Return the line of the key or list item at a path, or of its last parent that exists in the file."""
        node = mark = self.root
        for part in path:
            if isinstance(part, int):
                mark = node = node.value[part]
                continue
            pair = _find(node, (part,))
            if pair is None:  # missing, or inserted by a merge key
                break
            mark, node = pair
        return int(mark.start_mark.line) + 1


def parse(text: str, name: str = "the config") -> ConfigFile:
    """Parse a file into plain values and nodes; invalid or unsafe content is a RequestError with its line."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        root = YAML(typ="safe", pure=True).compose(text)
        values = _Builder(name).build(root, 0)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise RequestError("file", f"{name}{where}: {error.problem or error.context}.", "Fix the YAML.") from None
    except (YAMLError, ValueError) as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError("file", f"{name}: {str(error).splitlines()[0]}.", "Fix the YAML.") from None
    except RecursionError:
        raise RequestError("file", f"{name} is nested too deeply.", f"Use at most {DEEPEST} levels.") from None
    if not isinstance(values, dict):
        raise RequestError("file", f"{name} has no keys at its top level.", "Give a mapping of names to values.")
    return ConfigFile(text, values, root)


class _Builder:
    """Convert nodes to plain values, with limits on depth and number (aliases can multiply both)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def fail(self, node: Any, problem: str, fix: str) -> RequestError:
        return RequestError("file", f"{self.name}, line {node.start_mark.line + 1}: {problem}.", fix)

    def build(self, node: Any, depth: int) -> Any:
        from ruamel.yaml.nodes import MappingNode, ScalarNode

        if node is None:
            return None
        self.count += 1
        if depth > DEEPEST or self.count > MOST_VALUES:
            raise self.fail(
                node, "the file is nested too deeply or too large after expanding aliases", "Remove the aliases."
            )
        tag = str(node.tag)
        if tag not in _PLAIN_TAGS and tag != _TUPLE:
            raise self.fail(node, f"the tag {_short(tag)} is not allowed", "Use plain values.")
        if isinstance(node, ScalarNode):
            return self.scalar(node, tag.removeprefix(_TAG))
        if isinstance(node, MappingNode):
            return self.mapping(node, depth)
        return [self.build(item, depth + 1) for item in node.value]

    def mapping(self, node: Any, depth: int) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        direct: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if str(key_node.tag) == _TAG + "merge":
                value = self.build(value_node, depth + 1)
                for part in reversed(value if isinstance(value, list) else [value]):
                    merged.update(part if isinstance(part, dict) else {})
                continue
            key = self.build(key_node, depth + 1)
            if isinstance(key, (dict, list)):
                raise self.fail(key_node, "a key must be plain text", "Quote it.")
            direct[str(key)] = self.build(value_node, depth + 1)
        return {**merged, **direct}

    def scalar(self, node: Any, kind: str) -> Any:
        text = node.value
        try:
            if kind == "null":
                return None
            if kind == "bool":
                return text.lower() in ("true", "yes", "on")
            if kind == "int":
                digits = text.replace("_", "")
                return int(digits, 10) if digits.lstrip("+-").isdigit() else int(digits, 0)
            if kind == "float":
                return float(re.sub(r"^([+-]?)\.(inf|nan)$", r"\1\2", text.replace("_", "").lower()))
        except ValueError:
            raise self.fail(node, f"{text!r} is not a number", "Write it as 64 or 0.0003.") from None
        return _number_like(text) if kind == "str" and node.style is None else text


def _number_like(text: str) -> Any:
    """Convert an unquoted number such as `1e-4`, which YAML 1.1 reads as text."""
    if re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", text):
        return float(text)
    return text


def _short(tag: str) -> str:
    return "!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag


@dataclass(frozen=True, slots=True)
class Edit:
    """Set the value at a path; a missing key is added to its mapping."""

    path: tuple[str, ...]
    value: int | float


def edit(file: ConfigFile, edits: Iterable[Edit], name: str = "the config") -> str:
    """Return the text with the values replaced, after checking that it differs in exactly these values."""
    changes = list(edits)
    spans = sorted((_span(file, change, name) for change in changes), reverse=True)
    text = file.text
    for start, end, new in spans:
        text = text[:start] + new + text[end:]
    if parse(text, name).values != apply_edits(file.values, changes) or (_is_json(file.text) and not _is_json(text)):
        values = ", ".join(f"{'.'.join(change.path)} to {change.value}" for change in changes)
        raise RequestError("file", f"{name} cannot be edited safely in place.", f"Set {values} by hand.")
    return text


def apply_edits(values: Mapping[str, Any], edits: Iterable[Edit]) -> dict[str, Any]:
    """Return the values with the edits applied; unchanged parts are shared, not copied."""
    result = dict(values)
    for change in edits:
        result = _set_path(result, change.path, change.value)
    return result


def _set_path(values: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    head, *rest = path
    return {**values, head: _set_path(values.get(head, {}), tuple(rest), value) if rest else value}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _span(file: ConfigFile, change: Edit, name: str) -> tuple[int, int, str]:
    """Return (start, end, new text) of an edit."""
    text, pair = file.text, _find(file.root, change.path)
    if pair is None:
        return _insertion(file, change, name)
    key_node, value_node = pair
    start, end = value_node.start_mark.index, value_node.end_mark.index
    if start < key_node.end_mark.index:  # an alias: its node has the position of the anchor
        match = re.compile(r"\s*:\s*(\*[^\s,}\]]+)").match(text, key_node.end_mark.index)
        if match is None:
            raise RequestError("file", f"{name}: cannot find the value of {change.path[-1]}.", "Edit it by hand.")
        return match.start(1), match.end(1), str(change.value)
    if text[start] == "&":
        raise RequestError("file", f"{name}: the value of {change.path[-1]} has an anchor.", "Edit it by hand.")
    if start == end:  # `key:` without a value
        return start, end, f" {change.value}"
    return start, end, str(change.value)


def _insertion(file: ConfigFile, change: Edit, name: str) -> tuple[int, int, str]:
    """Return the edit that adds a key after the last plain value of its mapping."""
    parent = _parent(file.root, change.path)
    plain = [pair for pair in getattr(parent, "value", ()) if _is_plain(pair)]
    if not plain:
        raise RequestError(
            "file", f"{name}: {change.path[-1]} cannot be inserted automatically.", "Add the key by hand."
        )
    key_node, value_node = plain[-1]
    text = file.text
    end = max(value_node.end_mark.index, key_node.end_mark.index)
    quote = text[key_node.start_mark.index] if text[key_node.start_mark.index] in "\"'" else ""
    line = f"{quote}{change.path[-1]}{quote}: {change.value}"
    if parent.flow_style:
        return end, end, f", {line}"
    stop = text.find("\n", end)
    newline = "\r\n" if stop > 0 and text[stop - 1] == "\r" else "\n"
    line = " " * key_node.start_mark.column + line
    if stop < 0:
        return len(text), len(text), newline + line
    return stop + 1, stop + 1, line + newline


def _is_plain(pair: Any) -> bool:
    from ruamel.yaml.nodes import ScalarNode

    return isinstance(pair, tuple) and isinstance(pair[1], ScalarNode) and pair[1].style not in ("|", ">")


def _find(root: Any, path: tuple[str, ...]) -> tuple[Any, Any] | None:
    node, pair = root, None
    for part in path:
        pairs = [item for item in getattr(node, "value", ()) if isinstance(item, tuple) and item[0].value == part]
        if not pairs:
            return None
        pair = pairs[-1]
        node = pair[1]
    return pair


def _parent(root: Any, path: tuple[str, ...]) -> Any:
    pair = _find(root, path[:-1])
    return root if pair is None else pair[1]
