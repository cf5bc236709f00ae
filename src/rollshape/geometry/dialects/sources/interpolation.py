"""OmegaConf's `${…}`: absolute and relative paths, and the resolvers of IsaacGymEnvs. Nothing is evaluated as code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rollshape.geometry.dialects.sources.commandline import convert
from rollshape.geometry.dialects.sources.source import ConfigSection, Path

DEEPEST = 24
MOST_LOOKUPS = 20_000
_RESOLVER = re.compile(r"\s*([A-Za-z_][\w.]*):(.*)", re.DOTALL)


class Unresolved(Exception):
    """A reference to something that is not in the config."""


class Resolver:
    """Replaces the references in a config; what cannot be resolved stays as it is."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.lookups = 0

    def resolve(self, value: Any, path: Path) -> Any:
        """Return a value, at a path of the root, with all references below it replaced."""
        if isinstance(value, Mapping):
            resolved = ConfigSection(value, getattr(value, "origin", ""), getattr(value, "incomplete", ""))
            for name, item in value.items():
                resolved[name] = self.resolve(item, (*path, name))
            return resolved if resolved.incomplete or resolved.origin else dict(resolved)
        if isinstance(value, list):
            return [self.resolve(item, (*path, str(index))) for index, item in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            return self.text(value, path, 0)
        except Unresolved:
            return value

    def text(self, text: str, path: Path, depth: int) -> Any:
        """Return the value of a text with references."""
        self.lookups += 1
        if depth > DEEPEST or self.lookups > MOST_LOOKUPS:
            raise Unresolved(text)
        parts: list[Any] = []
        position = 0
        while (start := text.find("${", position)) >= 0:
            parts += [text[position:start]] if start > position else []
            end = _closing(text, start + 2)
            parts.append(self.reference(text[start + 2 : end], path, depth + 1))
            position = end + 1
        parts += [text[position:]] if position < len(text) else []
        return parts[0] if len(parts) == 1 else "".join(map(str, parts))

    def reference(self, text: str, path: Path, depth: int) -> Any:
        """Return the value of the content of `${…}`."""
        if match := _RESOLVER.fullmatch(text):
            return self.call(match[1], _split(match[2]), path, depth)
        dotted = str(self.text(text, path, depth)).strip() if "${" in text else text.strip()
        dots = len(dotted) - len(dotted.lstrip("."))
        if dots > len(path):
            raise Unresolved(text)
        base = path[: len(path) - dots] if dots else ()
        target = (*base, *re.split(r"[.\[\]]+", dotted[dots:].rstrip("]")))
        return self.lookup(target, depth)

    def lookup(self, target: Path, depth: int) -> Any:
        node: Any = self.root
        for part in target:
            if not isinstance(node, Mapping) or part not in node:
                raise Unresolved(".".join(target))
            node = node[part]
        return self.text(node, target, depth) if isinstance(node, str) and "${" in node else node

    def call(self, name: str, arguments: list[str], path: Path, depth: int) -> Any:
        """Return the result of one of the resolvers that IsaacGymEnvs and OmegaConf define."""
        if name == "oc.select" and arguments:
            try:
                return self.reference(arguments[0], path, depth)
            except Unresolved:
                return self.argument(arguments[1], path, depth) if arguments[1:] else None
        values = [self.argument(argument, path, depth) for argument in arguments]
        if name == "resolve_default" and len(values) == 2:
            return values[0] if values[1] == "" else values[1]
        if name == "if" and len(values) == 3:
            return values[1] if values[0] else values[2]
        if name == "eq" and len(values) == 2:
            return str(values[0]).lower() == str(values[1]).lower()
        if name == "contains" and len(values) == 2:
            return str(values[0]).lower() in str(values[1]).lower()
        if name == "oc.decode" and len(values) == 1:
            return values[0]
        raise Unresolved(name)

    def argument(self, text: str, path: Path, depth: int) -> Any:
        text = text.strip()
        if "${" in text:
            return self.text(text, path, depth)
        return text[1:-1] if text[:1] in ("'", '"') and text[-1:] == text[:1] else convert(text)


def _closing(text: str, start: int) -> int:
    depth = 1
    for index in range(start, len(text)):
        depth += text.startswith("${", index) - (text[index] == "}")
        if depth == 0:
            return index
    raise Unresolved(text)


def _split(text: str) -> list[str]:
    """Split at the commas that are not inside `${…}`."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]
