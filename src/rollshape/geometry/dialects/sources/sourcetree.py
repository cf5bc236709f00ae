"""The source tree of a Python config: its syntax trees, and the files that it imports classes and constants from."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path as FilePath
from typing import Any

from rollshape.errors import RequestError
from rollshape.files import read_text
from rollshape.geometry.dialects.sources.classes import Classes

MOST_FILES = 20  # that are looked up
MOST_PARENTS = 12


def parse_tree(text: str, name: str) -> ast.Module:
    """Return the syntax tree; text that is not Python is a RequestError with its line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a stranger's escape sequences
            return ast.parse(text)
    except SyntaxError as error:
        where = f", line {error.lineno}" if error.lineno else ""
        raise RequestError("file", f"{name}{where}: not valid Python: {error.msg}.", "Fix the Python file.") from None
    except (ValueError, RecursionError, MemoryError):
        raise RequestError("file", f"{name} cannot be parsed as Python.", "Give a config file.") from None


class SourceTree:
    """The files of a source tree that a config imports from."""

    def __init__(self) -> None:
        self.files: dict[FilePath, Classes | None] = {}  # None while a file is being read

    def open(self, text: str, path: FilePath | None, name: str) -> Classes:
        tree = parse_tree(text, name)
        module = "__main__" if not self.files else "imported"
        if path is not None:
            self.files[path] = None
        imports = dict(_imported_names(tree))
        return Classes(text, name, tree, partial(self.find, path, imports), module)

    def find(self, path: FilePath | None, imports: Mapping[str, tuple[int, str, str]], name: str) -> Any:
        """Return the file that defines an imported name, and the name there; None if it is not in the tree."""
        if path is None or name not in imports or not name[:1].isupper():  # only classes and constants
            return None
        level, module, original = imports[name]
        file = _module_file(path, level, module)
        if file is None or (file not in self.files and len(self.files) >= MOST_FILES):
            return None
        if file not in self.files:
            try:
                self.files[file] = self.open(read_text(str(file)), file, str(file))
            except RequestError:
                return None
        definition = self.files[file]
        if definition is None:
            return None
        known = original in definition.classes or original in definition.scope
        return (definition, original) if known else definition.importer(original)  # an __init__.py passes it on


def _imported_names(tree: ast.Module) -> Iterator[tuple[str, tuple[int, str, str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, (node.level, node.module or "", alias.name)


def _module_file(path: FilePath, level: int, module: str) -> FilePath | None:
    parts = module.split(".") if module else []
    folders = [path.parents[level - 1]] if level and len(path.parents) >= level else path.parents[:MOST_PARENTS]
    for folder in folders:
        for file in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py")):
            if parts and file.is_file():
                return file
    return None
