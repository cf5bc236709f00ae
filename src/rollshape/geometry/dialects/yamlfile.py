"""Reading a user's YAML or JSON safely, and editing single values of it in place.

Nothing in a file is ever executed: nodes are composed and turned into plain values here, tags other than YAML's own
are refused. An edit replaces the characters of one value, so comments, order, quoting and layout stay as they are.
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
_TUPLE = _TAG + "python/tuple"  # Isaac Lab and rl-zoo dump these; a tuple is a harmless sequence


@dataclass(frozen=True)
class Parsed:
    """A config file: its text, its plain values, and the nodes that know where each value stands."""

    text: str
    values: dict[str, Any]
    root: Any

    def line(self, path: Iterable[str | int]) -> int:
        """The line of the key or list item at a path, or of the last one on the way to it that the file holds."""
        node = mark = self.root
        for part in path:
            if isinstance(part, int):
                mark = node = node.value[part]
                continue
            found = _find(node, (part,))
            if found is None:  # a key that is missing, or that comes from a merge
                break
            mark, node = found
        return int(mark.start_mark.line) + 1


def parse(text: str, name: str = "the config") -> Parsed:
    """The file as plain values and nodes; anything broken or hostile is a RequestError with its line."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        root = YAML(typ="safe", pure=True).compose(text)
        values = _Builder(name).build(root, 0)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise RequestError("file", f"{name}{where}: {error.problem or error.context}.", "Mend the YAML.") from None
    except (YAMLError, ValueError) as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError("file", f"{name}: {str(error).splitlines()[0]}.", "Mend the YAML.") from None
    except RecursionError:
        raise RequestError("file", f"{name} is nested too deeply.", f"At most {DEEPEST} levels.") from None
    if not isinstance(values, dict):
        raise RequestError("file", f"{name} holds no keys at its top level.", "Give a mapping of names to values.")
    return Parsed(text, values, root)


class _Builder:
    """Nodes → plain values, within bounds of depth and number (aliases can multiply both)."""

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
            raise self.fail(node, "the file is nested too deeply or expands too far", "Remove the aliases.")
        tag = str(node.tag)
        if tag not in _PLAIN_TAGS and tag != _TUPLE:
            raise self.fail(node, f"the tag {_short(tag)} is not allowed", "Plain values only; nothing is executed.")
        if isinstance(node, ScalarNode):
            return self.scalar(node, tag.removeprefix(_TAG))
        if isinstance(node, MappingNode):
            return self.mapping(node, depth)
        return [self.build(item, depth + 1) for item in node.value]

    def mapping(self, node: Any, depth: int) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if str(key_node.tag) == _TAG + "merge":
                value = self.build(value_node, depth + 1)
                for part in reversed(value if isinstance(value, list) else [value]):
                    merged.update(part if isinstance(part, dict) else {})
                continue
            key = self.build(key_node, depth + 1)
            if isinstance(key, (dict, list)):
                raise self.fail(key_node, "a key must be plain text", "Quote it.")
            own[str(key)] = self.build(value_node, depth + 1)
        return {**merged, **own}

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
    """PyYAML reads `1e-4` as text and users write it all the same: a bare number is a number."""
    if re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", text):
        return float(text)
    return text


def _short(tag: str) -> str:
    return "!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag


@dataclass(frozen=True, slots=True)
class Edit:
    """Set the value at a path; a key that the mapping itself does not hold is added to it."""

    path: tuple[str, ...]
    value: int | float


def edit(parsed: Parsed, edits: Iterable[Edit], name: str = "the config") -> str:
    """The text with the values replaced; it is read again and must differ in exactly these values."""
    wanted = list(edits)
    spans = sorted((_span(parsed, change, name) for change in wanted), reverse=True)
    text = parsed.text
    for start, end, new in spans:
        text = text[:start] + new + text[end:]
    if parse(text, name).values != edited(parsed.values, wanted) or (_is_json(parsed.text) and not _is_json(text)):
        values = ", ".join(f"{'.'.join(change.path)} to {change.value}" for change in wanted)
        raise RequestError("file", f"{name} cannot be edited safely in place.", f"Set {values} by hand.")
    return text


def edited(values: Mapping[str, Any], edits: Iterable[Edit]) -> dict[str, Any]:
    """The values with the edits made; what does not change is shared, not copied."""
    result = dict(values)
    for change in edits:
        result = _with(result, change.path, change.value)
    return result


def _with(values: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    head, *rest = path
    return {**values, head: _with(values.get(head, {}), tuple(rest), value) if rest else value}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _span(parsed: Parsed, change: Edit, name: str) -> tuple[int, int, str]:
    """(start, end, new text) of an edit."""
    text, found = parsed.text, _find(parsed.root, change.path)
    if found is None:
        return _insertion(parsed, change, name)
    key_node, value_node = found
    start, end = value_node.start_mark.index, value_node.end_mark.index
    if start < key_node.end_mark.index:  # an alias: its node stands where the anchor is
        match = re.compile(r"\s*:\s*(\*[^\s,}\]]+)").match(text, key_node.end_mark.index)
        if match is None:
            raise RequestError("file", f"{name}: cannot find the value of {change.path[-1]}.", "Edit it by hand.")
        return match.start(1), match.end(1), str(change.value)
    if text[start] == "&":
        raise RequestError("file", f"{name}: {change.path[-1]} carries an anchor.", "Edit it by hand.")
    if start == end:  # `key:` without a value
        return start, end, f" {change.value}"
    return start, end, str(change.value)


def _insertion(parsed: Parsed, change: Edit, name: str) -> tuple[int, int, str]:
    """A new key after the last plain value of its mapping."""
    parent = _parent(parsed.root, change.path)
    plain = [pair for pair in getattr(parent, "value", ()) if _is_plain(pair)]
    if not plain:
        raise RequestError("file", f"{name} has no place for {change.path[-1]}.", "Add the key by hand.")
    key_node, value_node = plain[-1]
    text = parsed.text
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
    node, found = root, None
    for part in path:
        pairs = [pair for pair in getattr(node, "value", ()) if isinstance(pair, tuple) and pair[0].value == part]
        if not pairs:
            return None
        found = pairs[-1]
        node = found[1]
    return found


def _parent(root: Any, path: tuple[str, ...]) -> Any:
    found = _find(root, path[:-1])
    return root if found is None else found[1]
