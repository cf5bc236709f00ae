"""The classes of a Python config: attributes, bases in this file or an imported one, `__post_init__`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

from rollshape.geometry.dialects.sources.expressions import KNOWN_CLASSES
from rollshape.geometry.dialects.sources.source import ConfigSection
from rollshape.geometry.dialects.sources.statements import SPANS, Raised, Returned, Statements

POST_INIT = "__post_init__"
DEEPEST_CLASSES = 20
# Bases without sizes of their own, or whose defaults are those of the library.
KNOWN_BASES = KNOWN_CLASSES | {
    "object", "BaseConfig", "NamedTuple", "TypedDict", "ABC", "Protocol", "Generic", "Enum", "str", "Module",
}  # fmt: skip
# Name in this file → the file that defines it, and its name there.
Importer = Callable[[str], tuple["Classes", str] | None]


class Classes(Statements):
    """The classes, functions and constants of a file."""

    def __init__(self, text: str, name: str, tree: ast.Module, importer: Importer, module: str) -> None:
        super().__init__(text, name)
        self.importer = importer
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        self.scope = {"__name__": module}
        with suppress(Raised, Returned):  # such as `raise SystemExit(main())` at the end of a script
            self.run(tree.body, self.scope)

    # Classes

    def nested_class(self, node: ast.ClassDef, scope: dict[str, Any]) -> None:
        if self.scope is not scope:  # classes of the file itself are followed when they are used
            scope[node.name] = self.instance(node, scope)

    def new_instance(self, dotted: str, scope: dict[str, Any]) -> ConfigSection | None:
        """Return a new instance of a class `Name` or `Outer.inner` of this file or of one that it imports."""
        head, _, rest = dotted.partition(".")
        if head in scope and not rest:
            value = scope[head]
            return deepcopy(value) if isinstance(value, ConfigSection) else None
        if head in self.classes:
            section: Any = self.instance(self.classes[head], self.scope)
        elif (imported := self.importer(head)) is not None:
            section = deepcopy(imported[0].new_instance(imported[1], imported[0].scope))
            _forget_spans(section)
        else:
            return None
        for part in rest.split(".") if rest else ():
            section = section.get(part) if isinstance(section, ConfigSection) else None
        return section if isinstance(section, ConfigSection) else None

    def instance(self, node: ast.ClassDef, outer: dict[str, Any]) -> ConfigSection:
        """Return the values of an instance: those of the bases, of the class, then `__post_init__`."""
        if node in self.open_classes or len(self.open_classes) > DEEPEST_CLASSES:
            return ConfigSection(origin=node.name, incomplete=f"{node.name} inherits from itself")
        self.open_classes.append(node)
        try:
            scope = {**outer, "self": self.attributes(node, outer)}
            self.post_init(node, scope)
        except (Raised, Returned) as end:
            return ConfigSection(origin=node.name, incomplete=f"it cannot be created: {end or 'return'}")
        finally:
            self.open_classes.pop()
        return scope["self"] if isinstance(scope["self"], ConfigSection) else ConfigSection(origin=node.name)

    def attributes(self, node: ast.ClassDef, outer: dict[str, Any]) -> ConfigSection:
        """Return the class attributes, inherited ones first."""
        section = ConfigSection(origin=node.name)
        for base in reversed(node.bases):
            dotted = ast.unparse(base).partition("[")[0]
            inherited = self.base_attributes(dotted, outer)
            short = dotted.rpartition(".")[2]
            if inherited is not None:
                self.merge(section, inherited, base)
            elif short not in KNOWN_BASES:
                section.incomplete = f"its base class {dotted} is defined in another file"
        spans: dict[str, Any] = {}
        scope = {**outer, **section, SPANS: spans}
        before = dict(scope)
        self.run(node.body, scope)
        for name, value in scope.items():
            if name != SPANS and (name not in before or before[name] is not value or name in spans):
                section.put(name, value, spans.get(name))
        return section

    def base_attributes(self, dotted: str, outer: dict[str, Any]) -> ConfigSection | None:
        """Return the attributes of a base class, without its `__post_init__`, which belongs to the instance."""
        node = self.classes.get(dotted)
        if node is None or node in self.open_classes:
            imported = None if "." in dotted or node is not None else self.importer(dotted)
            if imported is not None:
                section = imported[0].base_attributes(imported[1], imported[0].scope)
                section = deepcopy(section)
                _forget_spans(section)
                return section
            return self.new_instance(dotted, outer)
        self.open_classes.append(node)
        try:
            return deepcopy(self.attributes(node, self.scope))
        finally:
            self.open_classes.pop()

    def post_init(self, node: ast.ClassDef, scope: dict[str, Any], *, from_base: bool = False) -> None:
        """Follow `__post_init__` of a class or, if it has none, of its first base that has one."""
        method = next(
            (part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == POST_INIT), None
        )
        if method is not None and not from_base:
            self.call(method, scope)
            return
        for base in node.bases:
            dotted = ast.unparse(base)
            if dotted in self.classes and self.classes[dotted] is not node:
                self.open_classes.append(self.classes[dotted])
                try:
                    self.post_init(self.classes[dotted], scope)
                finally:
                    self.open_classes.pop()
                return
            file, name = (None if "." in dotted else self.importer(dotted)) or (None, "")
            if file is not None and name in file.classes:
                file.open_classes.append(file.classes[name])
                inner = {**file.scope, "self": scope.get("self")}
                try:
                    file.post_init(file.classes[name], inner)
                finally:
                    file.open_classes.pop()
                    scope["self"] = inner["self"]
                return


def _forget_spans(section: Any) -> None:
    """Forget positions, which are those of another file."""
    if isinstance(section, ConfigSection):
        section.spans = dict.fromkeys(section.spans)
        for value in section.values():
            _forget_spans(value)
