"""What reading a config yields: plain nested values, where each value is in the text, and notes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rollshape.errors import RequestError

Path = tuple[str, ...]
Span = tuple[int, int]  # of the characters of a value
NOT_CONSTANT = "not a constant: "


class ConfigSection(dict[str, Any]):
    """A mapping of a config that was written as code.

    `origin` is the class or function that it is an instance of. `incomplete` says why values may be missing, for
    example because a base class is in another file: then a missing size is not the library's default.
    """

    def __init__(self, values: Mapping[str, Any] = {}, origin: str = "", incomplete: str = "") -> None:
        super().__init__(values)
        self.origin = origin
        self.incomplete = incomplete
        self.spans: dict[str, Span | None] = dict(getattr(values, "spans", {}))

    def put(self, name: str, value: Any, span: Span | None = None) -> None:
        """Set a value and where its literal is in the text (None: it is not a literal of this text)."""
        self[name] = value
        self.spans[name] = span

    def __deepcopy__(self, memo: dict[int, Any]) -> ConfigSection:
        from copy import deepcopy

        copy = ConfigSection({}, self.origin, self.incomplete)
        for name, value in self.items():
            copy.put(name, deepcopy(value, memo), self.spans.get(name))
        return copy


@dataclass(frozen=True, slots=True)
class Edit:
    """Set the value at a path; a missing key is added to its mapping if the kind of file allows it."""

    path: Path
    value: int | float | str | None


def _no_edit(name: str, kind: str) -> Callable[[Iterable[Edit]], str]:
    def edit(edits: Iterable[Edit]) -> str:
        raise by_hand(name, edits, f"{kind} cannot be edited in place")

    return edit


@dataclass(frozen=True)
class ConfigSource:
    """A config that was read: its values, and how to change them in its text."""

    kind: str  # for messages: "YAML", "Python", "a run folder", …
    name: str
    text: str
    values: dict[str, Any]
    notes: tuple[str, ...] = ()
    key: str | None = None  # the level to select in the values; what else the user's --key said is applied already
    editor: Callable[[Iterable[Edit]], str] | None = None
    kept: Mapping[Path, str] = field(default_factory=dict)  # values that refer to others: path → text in the file

    def edit(self, edits: Iterable[Edit]) -> str:
        """Return the text with the values replaced, or raise a RequestError that says what to set by hand."""
        return (self.editor or _no_edit(self.name, self.kind))(list(edits))


def by_hand(name: str, edits: Iterable[Edit], problem: str) -> RequestError:
    """Return the error for edits that cannot be made automatically."""
    values = ", ".join(f"{'.'.join(edit.path)} to {edit.value}" for edit in edits)
    return RequestError("file", f"{name}: {problem}.", f"Set {values} by hand.")


def apply_edits(values: Mapping[str, Any], edits: Iterable[Edit]) -> dict[str, Any]:
    """Return the values with the edits applied; unchanged parts are shared, not copied."""
    result = dict(values)
    for change in edits:
        result = _set_path(result, change.path, change.value)
    return result


def _set_path(values: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    head, *rest = path
    return {**values, head: _set_path(values.get(head, {}), tuple(rest), value) if rest else value}


def replace_spans(text: str, spans: Mapping[Path, Span | None], edits: Iterable[Edit], name: str, null: str) -> str:
    """Return the text in which the literals at the paths are replaced; `null` is how the kind of file writes None."""
    replacements = []
    for edit in edits:
        span = spans.get(edit.path)
        if span is None:
            problem = (
                "is not a number of this file that can be replaced" if edit.path in spans else "is not in the file"
            )
            raise by_hand(name, [edit], f"{'.'.join(edit.path)} {problem}")
        replacements.append((span, _literal(edit.value, null)))
    for (start, end), new in sorted(replacements, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _literal(value: int | float | str | None, null: str) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    return null if value is None else str(value)


def check_edited(values: Mapping[str, Any], edited: Mapping[str, Any], edits: Iterable[Edit], name: str) -> None:
    """Raise a RequestError unless the edited file differs from the original in exactly the edited values."""
    edits = list(edits)
    if edited != apply_edits(values, edits):
        raise by_hand(name, edits, "it cannot be edited safely in place (another value depends on one of these)")


def check_complete(values: Mapping[str, Any], level: Path, missing: Iterable[Path]) -> None:
    """Raise a RequestError if a size that the config does not contain may be defined elsewhere.

    Args:
        values: the whole config.
        level: where the keys of the library are.
        missing: paths, below the level, of the sizes for which the library's default would be used.
    """
    for path in missing:
        node: Any = values
        for part in (*level, *path):
            if getattr(node, "incomplete", ""):
                raise _incomplete(node, ".".join(path))
            node = node.get(part) if isinstance(node, Mapping) else None


def _incomplete(section: Any, name: str) -> RequestError:
    return RequestError(
        "incomplete", f"{name} is not in the config: {section.incomplete}.", f"Add {name}, or give the other file."
    )
