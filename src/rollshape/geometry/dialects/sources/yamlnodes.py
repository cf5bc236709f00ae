"""From YAML text to nodes, and from nodes to plain values, with limits on number, depth and integers.

ruamel.yaml takes about 0.1 ms per value: without a limit a file of 100,000 values would take 10 s.
"""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, ComposerError
from ruamel.yaml.nodes import MappingNode, ScalarNode

from rollshape.errors import RequestError
from rollshape.formatting import short_repr

MOST_VALUES = 20_000  # keys and values, also after expanding aliases
DEEPEST = 64
LARGEST_INTEGER = 512  # bits
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = {_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp", "merge")}
_BOOLS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_PYTHON = _TAG + "python/"  # written by PyYAML into run folders; read as plain values, nothing is constructed
_INERT = ("tuple", "list", "dict", "name:", "module:", "object:", "object/apply:", "str", "unicode", "int", "long",
          "float", "bool", "none")  # fmt: skip
_RUNS = re.compile(
    r"object/apply:(?:os|posix|nt|sys|subprocess|shutil|builtins\.(?:eval|exec|open|compile|__import__))\b"
)
_PAIRS = ("object/apply:collections.OrderedDict", "object/apply:collections.defaultdict")


class LimitedComposer(Composer):
    """Stops at the first value beyond the limit."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader=loader)
        self.warn_double_anchors = False  # a second anchor of the same name is legal YAML
        self.count = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.count += 1
        if self.count > MOST_VALUES:
            mark = self.parser.peek_event().start_mark
            raise ComposerError(None, None, f"the file has more than {MOST_VALUES:,} keys and values", mark)
        return super().compose_node(parent, index)


def compose(text: str) -> Any:
    """Return the root node of the only document of a text."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = LimitedComposer
    return yaml.compose(text)


class Builder:
    """Convert nodes to plain values, with limits on depth and number (aliases can multiply both)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def fail(self, node: Any, problem: str, fix: str) -> RequestError:
        return RequestError("file", f"{self.name}, line {node.start_mark.line + 1}: {problem}.", fix)

    def build(self, node: Any, depth: int) -> Any:
        if node is None:
            return None
        self.count += 1
        if depth > DEEPEST or self.count > MOST_VALUES:
            raise self.fail(
                node, "the file is nested too deeply or too large after expanding aliases", "Remove the aliases."
            )
        tag = str(node.tag)
        if tag not in _PLAIN_TAGS and not _is_inert(tag):
            raise self.fail(node, f"the tag {_short(tag)} is not allowed", "Use plain values.")
        if tag.startswith(_PYTHON):
            return self.inert(node, tag.removeprefix(_PYTHON), depth)
        if isinstance(node, ScalarNode):
            return self.scalar(node, tag.removeprefix(_TAG))
        if isinstance(node, MappingNode):
            return self.mapping(node, depth)
        return [self.build(item, depth + 1) for item in node.value]

    def inert(self, node: Any, tag: str, depth: int) -> Any:
        """Return the plain values of an object of Python: its name, its arguments or its attributes."""
        if tag.startswith(("name:", "module:")):
            return tag.partition(":")[2]
        if isinstance(node, ScalarNode):
            return self.scalar(node, {"long": "int", "none": "null"}.get(tag, tag))
        if isinstance(node, MappingNode):
            return self.mapping(node, depth)
        items = [self.build(item, depth + 1) for item in node.value]
        pairs = items[0] if tag in _PAIRS and len(items) == 1 else None
        if isinstance(pairs, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            return {str(name): value for name, value in pairs}
        return {} if tag in _PAIRS and not items else items

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
                return _BOOLS[text.lower()]
            if kind == "int":
                return _integer(text.replace("_", ""))
            if kind == "float":
                return float(re.sub(r"^([+-]?)\.(inf|nan)$", r"\1\2", text.replace("_", "").lower()))
        except (ValueError, KeyError):
            kinds = {"bool": "true or false", "int": f"an integer of at most {LARGEST_INTEGER} bits"}
            problem = f"{short_repr(text)} is not {kinds.get(kind, 'a number')}"
            raise self.fail(node, problem, "Write it as 64, 0.0003, true or false.") from None
        return _number_like(text) if kind == "str" and node.style is None else text


def _integer(digits: str) -> int:
    """Parse an integer; a ValueError if it is too large for any purpose (Python cannot even print some of them)."""
    number = int(digits, 10) if digits.lstrip("+-").isdigit() else int(digits, 0)
    if number.bit_length() > LARGEST_INTEGER:
        raise ValueError(digits)
    return number


def _number_like(text: str) -> Any:
    """Convert an unquoted number such as `1e-4`, which YAML 1.1 reads as text."""
    if re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", text):
        return float(text)
    return text


def _is_inert(tag: str) -> bool:
    kind = tag.removeprefix(_PYTHON)
    return tag.startswith(_PYTHON) and kind.startswith(_INERT) and not _RUNS.match(kind)


def _short(tag: str) -> str:
    return short_repr("!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag).strip("'\"")
