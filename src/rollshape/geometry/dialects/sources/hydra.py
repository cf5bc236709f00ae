"""Hydra configs: the files of a `defaults:` list that are beside it, and the config that a group file belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from rollshape.errors import RequestError
from rollshape.files import read_text
from rollshape.geometry.dialects.sources.interpolation import Resolver
from rollshape.geometry.dialects.sources.source import ConfigSection, Path
from rollshape.geometry.dialects.sources.yamlfile import parse as parse_yaml

MOST_FILES = 60
MOST_PARENTS = 4
_PRIMARY = ("config.yaml", "config.yml")
_PACKAGE = re.compile(r"#\s*@package\s+(\S+)")


def is_hydra(values: Mapping[str, Any], text: str) -> bool:
    """Return whether a config refers to other files or values."""
    return "${" in text or isinstance(values.get("defaults"), list)


def compose(values: Mapping[str, Any], path: FilePath | None) -> tuple[dict[str, Any], list[str]]:
    """Return a config with its defaults list and its references resolved, and notes."""
    notes: list[str] = []
    whole = _Composer(notes).compose(values, path, {})
    root, prefix = (whole, ()) if path is None else _context(whole, path, notes)
    resolved = Resolver(root).resolve(whole, prefix)
    return resolved, notes


class _Composer:
    def __init__(self, notes: list[str]) -> None:
        self.notes = notes
        self.files = 0

    def compose(self, values: Mapping[str, Any], path: FilePath | None, choices: dict[str, Any]) -> ConfigSection:
        """Return the values merged with the files of the defaults list, in its order."""
        result = ConfigSection()
        entries = values.get("defaults")
        body = {name: value for name, value in values.items() if name != "defaults" or not isinstance(entries, list)}
        merged = False
        for entry in entries if isinstance(entries, list) else ():
            if entry == "_self_":
                _merge(result, body)
                merged = True
                continue
            for group, option in _options(entry, choices):
                self.add(result, group, option, path, choices)
        if not merged:
            _merge(result, body)
        return result

    def add(
        self, result: ConfigSection, group: str, option: str, path: FilePath | None, choices: dict[str, Any]
    ) -> None:
        """Merge the file of one entry into its package."""
        what = f"{group}: {option}" if group else option
        file = None if path is None else _find(path, group, option)
        self.files += 1
        if file is None or self.files > MOST_FILES:
            result.incomplete = result.incomplete or f"the file of `{what}` in its defaults list is not beside it"
            return
        text = read_text(str(file))
        inner = self.compose(parse_yaml(text, str(file)).values, file, choices)
        header = _PACKAGE.match(text.lstrip())
        package = group.replace("/", ".") if header is None else header[1]
        target: dict[str, Any] = result
        for part in package.replace("_global_", "").strip("./").split(".") if package.strip("./") else ():
            if part:
                nested = target.setdefault(part, {})
                target = nested if isinstance(nested, dict) else {}
        _merge(target, inner)
        result.incomplete = result.incomplete or inner.incomplete
        self.notes.append(f"{what}: values of {file}")


def _options(entry: Any, choices: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (group, option) of an entry of a defaults list; Hydra's own groups are not part of the config."""
    pairs = entry.items() if isinstance(entry, Mapping) else [("", entry)]
    for name, options in pairs:
        group = str(name).removeprefix("override ").removeprefix("optional ").partition("@")[0].strip().strip("/")
        if group.startswith("hydra"):
            continue
        for option in options if isinstance(options, list) else [options]:
            if option is None:
                continue
            chosen = Resolver(choices).resolve(str(option), ())
            chosen = choices.get(group, chosen) if group else chosen
            choices[group or str(option)] = chosen
            yield group, str(chosen).removesuffix(".yaml")


def _find(path: FilePath, group: str, option: str) -> FilePath | None:
    absolute = option.startswith("/")
    name = FilePath(group.strip("/"), option.strip("/") + ".yaml")
    if ".." in name.parts:
        return None
    folders = [path.parent, *list(path.parent.parents)[:MOST_PARENTS]]
    for folder in folders[1:] + folders[:1] if absolute else folders:
        if (folder / name).is_file() and (folder / name) != path:
            return folder / name
    return None


def _context(values: Mapping[str, Any], path: FilePath, notes: list[str]) -> tuple[dict[str, Any], Path]:
    """Return the config that a group file belongs to, and where in it the file's values are.

    IsaacGymEnvs' `train/AntPPO.yaml` belongs to `config.yaml` above it, whose defaults list has `train: ${task}PPO`: so
    the task is Ant.
    """
    group = path.parent.name
    for primary in (path.parent.parent / name for name in _PRIMARY):
        if not primary.is_file() or "defaults" in values:
            continue
        try:
            whole = parse_yaml(read_text(str(primary)), str(primary)).values
        except RequestError:
            continue
        entries = [entry for entry in whole.get("defaults") or () if isinstance(entry, Mapping)]
        pattern = next((str(entry[group]) for entry in entries if group in entry), None)
        if pattern is None:
            continue
        root = {name: value for name, value in whole.items() if name != "defaults"}
        named = re.sub(r"\\\$\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(pattern))
        if match := re.fullmatch(named, path.stem):
            composer = _Composer(notes)
            for other, option in match.groupdict().items():
                inner = ConfigSection()
                composer.add(inner, other, option, primary, {other: option})
                _merge(root, inner)
        return {**root, group: values}, (group,)
    return dict(values), ()


def _merge(target: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        old = target.get(name)
        if isinstance(old, dict) and isinstance(value, Mapping):
            _merge(old, value)
        else:
            target[name] = dict(value) if type(value) is dict else value
