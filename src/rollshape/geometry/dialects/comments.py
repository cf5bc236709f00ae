"""Comments in a config that an edit makes untrue: corrected if they only repeat the number, else pointed out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rollshape.geometry.dialects.keys import is_number
from rollshape.geometry.dialects.sources.source import Edit

_COMMENT = re.compile(
    r"""(?P<code>(?:[^"'#]|"[^"]*"|'[^']*'|(?<=\w)'|(?<=\S)\#)*)(?P<mark>(?:^|(?<=\s))\#\s*)(?P<text>.*?)\s*$"""
)
_NUMBER = re.compile(r"\d[\d,_]*(?:\.\d+)?")


def review_comments(
    before: str, after: str, values: Mapping[str, Any], edits: Iterable[Edit]
) -> tuple[str, tuple[str, ...]]:
    """Return the edited text with corrected comments, and a warning per comment that may be untrue now.

    `values` are those before the edits. A comment may be untrue if it contains a number on a line that changed, or a
    number that changed on any line.
    """
    stale = {old: edit.value for edit in edits if is_number(old := _value_at(values, edit.path))}
    unchanged = set(before.splitlines())
    lines, warnings = after.splitlines(keepends=True), []
    for index, line in enumerate(lines):
        match = _COMMENT.match(line.rstrip("\r\n"))
        if match is None or not stale:
            continue
        comment, is_changed = match["text"], line.rstrip("\r\n") not in unchanged
        numbers = [_to_float(text) for text in _NUMBER.findall(comment)]
        new = stale.get(_to_float(comment)) if _NUMBER.fullmatch(comment) else None
        if is_changed and new is not None:  # the comment repeats the value
            start, end = match.span("text")
            lines[index] = f"{line[:start]}{new}{line[end:]}"
        elif (is_changed and numbers) or any(number in stale for number in numbers):
            warnings.append(f"line {index + 1}: the comment may be untrue now: {match['mark']}{comment}")
    return "".join(lines), tuple(warnings)


def _to_float(text: str) -> float:
    return float(re.sub("[,_]", "", text))


def _value_at(values: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        values = values.get(part) if isinstance(values, Mapping) else None
    return values
