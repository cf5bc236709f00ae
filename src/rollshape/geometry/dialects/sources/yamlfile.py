"""Reading YAML or JSON safely, and editing single values in place.

Nothing in a file is executed: nodes are converted to plain values here, and only the standard YAML tags are allowed.
An edit replaces the characters of one value, so comments, order, quoting and layout are preserved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.sources.source import Edit, apply_edits, by_hand

LONGEST_PROBLEM = 200  # characters of a message of the YAML parser


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
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    from rollshape.geometry.dialects.sources.yamlnodes import DEEPEST, Builder, compose

    try:
        root = compose(text)
        values = Builder(name).build(root, 0)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = " ".join(str(error.problem or error.context).split())[:LONGEST_PROBLEM]
        raise RequestError("file", f"{name}{where}: {problem}.", "Fix the YAML.") from None
    except (YAMLError, ValueError) as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError("file", f"{name}: {str(error).splitlines()[0]}.", "Fix the YAML.") from None
    except RecursionError:
        raise RequestError("file", f"{name} is nested too deeply.", f"Use at most {DEEPEST} levels.") from None
    if not isinstance(values, dict):
        raise RequestError("file", f"{name} has no keys at its top level.", "Give a mapping of names to values.")
    return ConfigFile(text, values, root)


def edit(file: ConfigFile, edits: Iterable[Edit], name: str = "the config") -> str:
    """Return the text with the values replaced, after checking that it differs in exactly these values."""
    changes = list(edits)
    spans = sorted((_span(file, change, name) for change in changes), reverse=True)
    text = file.text
    for start, end, new in spans:
        text = text[:start] + new + text[end:]
    if parse(text, name).values != apply_edits(file.values, changes) or (_is_json(file.text) and not _is_json(text)):
        raise by_hand(name, changes, "it cannot be edited safely in place")
    return text


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
        return match.start(1), match.end(1), _literal(change.value)
    if text[start] == "&":
        raise RequestError("file", f"{name}: the value of {change.path[-1]} has an anchor.", "Edit it by hand.")
    if start == end:  # `key:` without a value
        return start, end, f" {_literal(change.value)}"
    return start, end, _literal(change.value)


def _literal(value: int | float | str | None) -> str:
    """Return a value as YAML and JSON write it; PyYAML reads `3e-05` as text, so write `3.0e-05`."""
    if isinstance(value, float):
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))
    return json.dumps(value)


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
    line = f"{quote}{change.path[-1]}{quote}: {_literal(change.value)}"
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
