"""A command line as a config: `python ppo.py --num_envs=2048 --num-steps 16`, or Hydra's `arch.total_num_envs=64`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

from rollshape.errors import RequestError
from rollshape.files import read_text
from rollshape.geometry.dialects.sources.pyfile import parse as parse_python
from rollshape.geometry.dialects.sources.source import ConfigSection, ConfigSource

LONGEST = 100_000  # characters
_OVERRIDE = re.compile(r"[+~]{0,2}([A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*=.*", re.DOTALL)
_WORDS = {"true": True, "false": False, "none": None, "null": None}
_KNOWN_SCRIPTS = ("ppo.py", "ff_ppo.py")  # whose defaults the dialects know
_NEXT = ("&&", "||", ";", "|", "&")


def is_command(text: str) -> bool:
    """Return whether a text is a command line: several words, of which some are flags or `key=value`."""
    if "\n" in text.strip().replace("\\\n", " "):
        return False
    words = text.replace("\\\n", " ").split()
    flags = any(word.startswith("--") or _OVERRIDE.fullmatch(word) for word in words)
    return flags and (len(words) > 1 or words[0].startswith("--") or "=" in words[0])


def parse(text: str) -> ConfigSource:
    """Read a command line; if its script is a file here, the script's own defaults are used."""
    if len(text) > LONGEST:
        raise RequestError("file", f"The command line is longer than {LONGEST:,} characters.", "Give a file.")
    try:
        words = shlex.split(text.replace("\\\n", " "))
    except ValueError as error:
        raise RequestError("file", f"The command line is incomplete: {error}.", "Quote it as a whole.") from None
    if any(word in _NEXT or word.endswith(";") for word in words):
        raise RequestError("file", "This is more than one command.", "Give the command that starts the training.")
    while words and _VARIABLE.fullmatch(words[0]) and not words[0].islower():
        words = words[1:]  # CUDA_VISIBLE_DEVICES=0
    script, launcher, words = _split_script(words)
    values, notes = _script_defaults(script)
    if launcher:
        values["launcher"] = launcher
    for name, value in _pairs(words):
        _put(values, name, value)
    return ConfigSource("a command line", script or "the command line", text, values, tuple(notes))


def _split_script(words: list[str]) -> tuple[str, dict[str, Any], list[str]]:
    """Return (script, flags of the launcher before it, words after it)."""
    for index, word in enumerate(words):
        if word.endswith((".py", ".sh")) and not word.startswith("-") and "=" not in word:
            if word.endswith(".sh") and any(other.endswith(".py") for other in words[index + 1 :]):
                continue  # isaaclab.sh -p train.py
            return word, dict(_pairs(words[:index])), words[index + 1 :]
        if word == "-m" and index + 1 < len(words):
            return words[index + 1], dict(_pairs(words[:index])), words[index + 2 :]
    return "", {}, words


def _script_defaults(script: str) -> tuple[dict[str, Any], list[str]]:
    """Return the defaults of a script that is here; a note if it is not."""
    if not script.endswith(".py"):
        return {}, []
    if not FilePath(script).is_file():
        if FilePath(script).name in _KNOWN_SCRIPTS:
            return {}, [f"{script} is not here: values that are not on the command line are the library's defaults"]
        return ConfigSection(incomplete=f"its default is in {script}, which is not here"), []
    try:
        levels = parse_python(read_text(script), script, None, FilePath(script)).values
    except RequestError:
        return {}, []
    name = next((name for name in ("Args", "arguments") if name in levels), None)
    if name is None:
        return {}, [f"{script} has no class Args: values that are not on the command line are the library's defaults"]
    return levels[name], [f"values that are not on the command line are the defaults of {script}"]


def _pairs(words: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of all flags and overrides; words that are neither belong to no name."""
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("-") or _is_number(word):
            if match := _OVERRIDE.fullmatch(word):
                yield match[1].replace("/", ".").partition("@")[0], convert(match[2])
            continue
        name, equals, value = word.lstrip("-").partition("=")
        given = []
        while not equals and index < len(words) and _is_value(words[index]):
            given.append(convert(words[index]))
            index += 1
        if equals:
            yield name.replace("-", "_"), convert(value)
        elif given:
            yield name.replace("-", "_"), given[0] if len(given) == 1 else given
        elif name.startswith(("no-", "no_")):
            yield name[3:].replace("-", "_"), False
        else:
            yield name.replace("-", "_"), True


def _is_value(word: str) -> bool:
    return _is_number(word) or not (word.startswith("-") or _OVERRIDE.fullmatch(word))


def _is_number(word: str) -> bool:
    return isinstance(convert(word), (int, float)) and not isinstance(convert(word), bool)


def convert(word: str) -> Any:
    """Return a word as a number, true, false or null if it is one; else the word."""
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    for kind in (int, float):
        try:
            return kind(word) if len(word) < 100 else word
        except ValueError:
            continue
    return word


def _put(values: dict[str, Any], name: str, value: Any) -> None:
    """Set a value; the parts of a dotted name are levels."""
    *sections, leaf = name.split(".")
    for section in sections:
        inner = values.setdefault(section, {})
        if not isinstance(inner, dict):
            raise RequestError("file", f"{section} is a value and a section of the command line.", "Remove one.")
        values = inner
    values[leaf] = value
