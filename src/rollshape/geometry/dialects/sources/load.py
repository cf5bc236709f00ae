"""Reading a config of any kind: what a file, folder or text is, and which reader it needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Any

from rollshape.errors import RequestError
from rollshape.files import read_text
from rollshape.geometry.dialects.sources.source import ConfigSource, Edit, Path, by_hand

_NOT_CONFIGS = {
    ".pt": "a PyTorch checkpoint", ".pth": "a PyTorch checkpoint", ".pkl": "a pickle", ".pickle": "a pickle",
    ".npz": "a NumPy archive", ".onnx": "an ONNX model", ".ipynb": "a notebook", ".md": "Markdown text",
    ".rst": "documentation", ".xml": "XML", ".urdf": "a robot description", ".html": "HTML", ".csv": "a table",
    ".gin": "a gin config", ".jsonl": "JSON lines", ".sh": "a shell script", ".png": "an image", ".pdf": "a PDF",
}  # fmt: skip
_KINDS = {
    ".yaml": "YAML", ".yml": "YAML", ".json": "YAML", ".py": "Python", ".toml": "TOML", ".ini": "INI", ".cfg": "INI",
    ".conf": "INI",
}  # fmt: skip
_PYTHON = re.compile(r"^(?:from \S+ import |import \w|class \w+.*:|def \w+\(|@\w+)", re.MULTILINE)
_INI = re.compile(r"^\s*\[[^\]\n]+\]\s*$", re.MULTILINE)
_SHELL = re.compile(r"^\s*(?:\w+=\S+ )*(?:python\d?|torchrun|accelerate|puffer|\./\S+\.sh) .*", re.MULTILINE)


def load(source: str, key: str | None = None) -> ConfigSource:
    """Read a config: a file, a run folder, a model of SB3, a command line, or `-` for standard input.

    `key` is the level that the user selected; the result's `key` is what is left of it to select in its values.
    """
    from rollshape.geometry.dialects.sources import commandline

    path = FilePath(source)
    if source != "-" and _exists(path) and path.is_dir():
        from rollshape.geometry.dialects.sources import folders

        return _with_key(folders.parse(path, load), key)
    if source != "-" and commandline.is_command(source) and not _exists(path):
        return _with_key(commandline.parse(source), key)
    if path.suffix == ".zip" and _exists(path):
        from rollshape.geometry.dialects.sources import sb3zip

        return _with_key(sb3zip.parse(source), key)
    if path.suffix.lower() in _NOT_CONFIGS and _exists(path):
        raise RequestError(
            "file", f"{source} is {_NOT_CONFIGS[path.suffix.lower()]}, not a config that I can read.",
            "Give the config file of the training.",
        )  # fmt: skip
    text = read_text(source)
    return parse_text(text, "stdin" if source == "-" else source, key, None if source == "-" else path)


def _exists(path: FilePath) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _with_key(source: ConfigSource, key: str | None) -> ConfigSource:
    from dataclasses import replace

    return replace(source, key=key)


def parse_text(text: str, name: str, key: str | None = None, path: FilePath | None = None) -> ConfigSource:
    """Read a config from its text; its kind is that of the name's suffix, or is recognized by its content."""
    kind = _KINDS.get(FilePath(name).suffix.lower()) or detect(text)
    if kind == "Python":
        from rollshape.geometry.dialects.sources import pyfile

        return pyfile.parse(text, name, key, path)
    if kind in ("INI", "TOML"):
        from rollshape.geometry.dialects.sources import inifile

        source = inifile.parse_toml(text, name) if kind == "TOML" else inifile.parse_ini(text, name, path)
        return _with_key(source, key)
    if kind == "command":
        from rollshape.geometry.dialects.sources import commandline

        return _with_key(commandline.parse(text.strip()), key)
    return _with_key(_yaml(text, name, path), key)


def detect(text: str) -> str:
    """Return the kind of a text without a suffix."""
    start = text.lstrip()[:1]
    if start == "{" or ("\n" not in text.strip() and ": " in text):
        return "YAML"
    from rollshape.geometry.dialects.sources import commandline, inifile

    if commandline.is_command(text.strip()):
        return "command"
    if _PYTHON.search(text):
        return "Python"
    if _INI.search(text) and not re.search(r"^\s*-?\s*[\w.\"']+:\s", text, re.MULTILINE):
        return "TOML" if inifile.is_toml(text) else "INI"
    if "=" in text and inifile.is_toml(text):
        return "TOML"
    return "YAML"


def _yaml(text: str, name: str, path: FilePath | None) -> ConfigSource:
    from rollshape.geometry.dialects.sources import yamlfile

    try:
        file = yamlfile.parse(text, name)
    except RequestError:
        if FilePath(name).suffix.lower() in ("", *_KINDS):
            raise
        raise RequestError(
            "file", f"{name} is not a config that I recognize (YAML, JSON, TOML, INI or Python).",
            "Give the config file, or the command line that starts the training, in quotes.",
        ) from None  # fmt: skip
    values: dict[str, Any] = file.values
    notes: list[str] = []
    kept: dict[Path, str] = {}
    from rollshape.geometry.dialects.sources import hydra

    if hydra.is_hydra(values, text):
        values, notes = hydra.compose(values, path)
        kept = dict(_references(file.values))

    def edit(edits: Iterable[Edit]) -> str:
        edits = list(edits)
        for change in edits:
            if change.path in kept:
                raise by_hand(name, [change], f"{'.'.join(change.path)} is {kept[change.path]}")
            if not _contains(file.values, change.path[:-1]):
                raise by_hand(
                    name, [change], f"{'.'.join(change.path)} is defined in another file ({'; '.join(notes)})"
                )
        return yamlfile.edit(file, edits, name)

    return ConfigSource("YAML", name, text, values, tuple(notes), editor=edit, kept=kept)


def _references(values: object, path: Path = ()) -> Iterable[tuple[Path, str]]:
    if isinstance(values, dict):
        for name, value in values.items():
            yield from _references(value, (*path, name))
    elif isinstance(values, str) and "${" in values:
        yield path, values


def _contains(values: object, path: Path) -> bool:
    for part in path:
        if not isinstance(values, dict) or part not in values:
            return False
        values = values[part]
    return True
