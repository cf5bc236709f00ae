"""INI and TOML configs: values by the standard library, positions of single values by their lines."""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any

from rollshape.errors import RequestError
from rollshape.files import read_text
from rollshape.geometry.dialects.sources.expressions import Expressions, Unknown
from rollshape.geometry.dialects.sources.source import (
    ConfigSection,
    ConfigSource,
    Edit,
    Path,
    Span,
    by_hand,
    check_edited,
    replace_spans,
)

_DEFAULTS = "default.ini"  # PufferLib reads it before the file of an environment
_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:[#;].*)?$")
_ENTRY = re.compile(r"\s*([^\s=:#;\[\]\"'][^=:]*?)\s*[=:]\s*")
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*\.?[\d_]*|\.\d+)(?:[eE][+-]?\d+)?|auto")


def parse_ini(text: str, name: str, path: FilePath | None = None) -> ConfigSource:
    """Read an INI file; a `default.ini` in its folder or in the folder above provides the other values."""
    values = _ini_values(text, name)
    notes: tuple[str, ...] = ()
    folders = () if path is None or path.name == _DEFAULTS else (path.parent, path.parent.parent)
    defaults = next((folder / _DEFAULTS for folder in folders if (folder / _DEFAULTS).is_file()), None)
    everything = values
    if defaults is not None:
        everything = _merged(_ini_values(read_text(str(defaults)), str(defaults)), values)
        notes = (f"values that are not in {name} are those of {defaults}",)

    def edit(edits: Iterable[Edit]) -> str:
        return _edit_lines(text, edits, name, values, lambda new: _ini_values(new, name))

    return ConfigSource("INI", name, text, everything, notes, editor=edit)


def _ini_values(text: str, name: str) -> dict[str, Any]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text, name)
    except configparser.Error as error:
        line = getattr(error, "lineno", None) or next(iter(getattr(error, "errors", ())), (None,))[0]
        where = f", line {line}" if line else ""
        raise RequestError("file", f"{name}{where}: not a valid INI file.", "Fix the INI file.") from None
    values: dict[str, Any] = {}
    for section in parser.sections():
        level = values
        for part in section.split("."):  # as PufferLib nests them
            inner = level.setdefault(part, {})
            level = inner if isinstance(inner, dict) else {}
        for entry, literal in parser[section].items():
            level[entry] = _literal(literal)
    if not values:
        raise RequestError("file", f"{name} has no sections.", "Give a file with [sections] of names and values.")
    return values


def _literal(text: str) -> Any:
    """Return the Python literal that a text is, or the text."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        value = _NoClasses("", "").value(node, {})
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text
    return text if isinstance(value, Unknown) else value


class _NoClasses(Expressions):
    def new_instance(self, dotted: str, scope: dict[str, Any]) -> ConfigSection | None:  # noqa: ARG002
        return None


def parse_toml(text: str, name: str) -> ConfigSource:
    """Read a TOML file."""
    values = _toml_values(text, name)

    def edit(edits: Iterable[Edit]) -> str:
        return _edit_lines(text, edits, name, values, lambda new: _toml_values(new, name))

    return ConfigSource("TOML", name, text, values, editor=edit)


def _toml_values(text: str, name: str) -> dict[str, Any]:
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        problem = str(error).splitlines()[0][:200]
        raise RequestError("file", f"{name}: not a valid TOML file: {problem}.", "Fix the TOML file.") from None
    return values


def is_toml(text: str) -> bool:
    """Return whether a text is TOML; an INI file whose values are all literals of TOML is, too."""
    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return False
    return True


def _edit_lines(
    text: str, edits: Iterable[Edit], name: str, values: Mapping[str, Any], reread: Callable[[str], Mapping[str, Any]]
) -> str:
    edits = list(edits)
    spans = _line_spans(text)
    present = [edit for edit in edits if edit.path in spans]
    edited = replace_spans(text, spans, present, name, "None")
    for edit in edits:
        if edit not in present:
            edited = _insert(edited, edit, name)
    try:
        after = reread(edited)
    except RequestError:
        after = {}
    check_edited(values, after, edits, name)
    return edited


def _insert(text: str, edit: Edit, name: str) -> str:
    """Return the text with a new line after the last value of its section."""
    lines, last = text.splitlines(keepends=True), -1
    section: Path = ()
    for index, line in enumerate(lines):
        if header := _HEADER.match(line):
            section = _section(header)
        if section == edit.path[:-1] and (header or _ENTRY.match(line)):
            last = index
    if last < 0 or edit.value is None:
        raise by_hand(name, [edit], f"{'.'.join(edit.path)} is not in the file")
    ending = "\r\n" if lines[last].endswith("\r\n") else "\n"
    lines[last] = lines[last].rstrip("\r\n") + ending
    lines.insert(last + 1, f"{edit.path[-1]} = {edit.value}{ending}")
    return "".join(lines)


def _section(header: re.Match[str]) -> Path:
    return tuple(part.strip().strip("\"'") for part in header[1].split("."))


def _line_spans(text: str) -> dict[Path, Span | None]:
    """Return where the numbers are: `name = 64` in a line of `[section]`."""
    spans: dict[Path, Span | None] = {}
    section: Path = ()
    position = 0
    for line in text.splitlines(keepends=True):
        header, entry = _HEADER.match(line), _ENTRY.match(line)
        if header:
            section = _section(header)
        elif entry:
            number = _NUMBER.match(line, entry.end())
            path = (*section, *(part.strip() for part in entry[1].split(".")))
            spans[path] = None if number is None else (position + number.start(), position + number.end())
        position += len(line)
    return spans


def _merged(defaults: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults, overridden by the values, at all levels."""
    merged = dict(defaults)
    for name, value in values.items():
        old = merged.get(name)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[name] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return merged
