"""Following the statements of a Python config: assignments, conditions, calls that change a mapping.

A statement that is not understood (a loop, a call that may change a mapping) never goes unnoticed: the mappings it
mentions become `incomplete`, and the names that it sets become unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from rollshape.geometry.dialects.sources.expressions import Expressions, Unknown
from rollshape.geometry.dialects.sources.source import ConfigSection

_SILENT = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.Pass, ast.Assert, ast.Global)
SPANS = "(spans)"  # in the scope of a class body: where the literals are


class Raised(Exception):
    """The config raises an exception for this choice."""


class Returned(Exception):
    """A function returned a value."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Statements(Expressions):
    """Follows statements; a subclass knows the classes of the file."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text, name)
        self.scope: dict[str, Any] = {}  # of the module
        self.open_classes: list[ast.ClassDef] = []

    def nested_class(self, node: ast.ClassDef, scope: dict[str, Any]) -> None:
        """Follow a class inside a class."""
        raise NotImplementedError

    def post_init(self, node: ast.ClassDef, scope: dict[str, Any], *, from_base: bool = False) -> None:
        """Follow `__post_init__` of a class, or of its bases."""
        raise NotImplementedError

    # Statements

    def run(self, body: Sequence[ast.stmt], scope: dict[str, Any]) -> None:
        """Follow statements; the scope contains the values of their names."""
        for node in body:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self.assign(target, node.value, scope)
            elif isinstance(node, ast.AnnAssign):
                if node.value is not None:
                    self.assign(node.target, node.value, scope)
            elif isinstance(node, ast.AugAssign):
                self.assign(node.target, ast.BinOp(node.target, node.op, node.value), scope)
            elif isinstance(node, ast.If):
                self.branch(node, scope)
            elif isinstance(node, ast.Expr):
                self.expression(node.value, scope)
            elif isinstance(node, ast.Return):
                raise Returned(None if node.value is None else self.value(node.value, scope))
            elif isinstance(node, ast.Raise):
                raise Raised(ast.unparse(node))
            elif isinstance(node, ast.ClassDef):
                self.nested_class(node, scope)
            elif not isinstance(node, _SILENT):
                self.doubt(node, scope)

    def assign(self, target: ast.expr, expression: ast.expr, scope: dict[str, Any]) -> None:
        """Set a name, an attribute or an item."""
        value, span = self.value(expression, scope), self.span(expression)
        if isinstance(target, ast.Name):
            scope[target.id] = value
            if isinstance(self_spans := scope.get(SPANS), dict):
                self_spans[target.id] = span
            return
        if isinstance(target, (ast.Tuple, ast.List)):
            for item in target.elts:
                self.assign(item, ast.Name("an item of several"), scope)
            return
        if isinstance(target, ast.Attribute):
            owner, name = self.value(target.value, scope), target.attr
        elif isinstance(target, ast.Subscript):
            owner, name = self.value(target.value, scope), self.value(target.slice, scope)
        else:
            return
        if isinstance(owner, ConfigSection) and isinstance(name, str):
            owner.put(name, value, span)
        else:
            self.doubt(target, scope)

    def branch(self, node: ast.If, scope: dict[str, Any]) -> None:
        """Follow the branch of a condition; if it is unknown, keep only what both branches agree on."""
        test = self.value(node.test, scope)
        if not isinstance(test, Unknown):
            self.run(node.body if test else node.orelse, scope)
            return
        results = []
        for body in (node.body, node.orelse):
            copy = deepcopy(scope)
            try:
                self.run(body, copy)
            except Raised:
                continue
            except Returned:
                self.doubt(node, scope)
                continue
            results.append(copy)
        if len(results) == 2:
            unsure(results[0], results[1], Unknown(f"it depends on {test.text}"))
        if results:
            scope.clear()
            scope.update(results[0])

    def expression(self, node: ast.expr, scope: dict[str, Any]) -> None:
        """Follow a call whose result is not used."""
        if isinstance(node, (ast.Constant, ast.Yield, ast.Await)) or not isinstance(node, ast.Call):
            return
        called = ast.unparse(node.func)
        if called == "super().__post_init__" and self.open_classes:
            self.post_init(self.open_classes[-1], scope, from_base=True)
            return
        if isinstance(node.func, ast.Attribute) and isinstance(
            owner := self.value(node.func.value, scope), ConfigSection
        ):
            if node.func.attr == "update":
                self.with_keywords(owner, node, scope)
                for arg in node.args:
                    self.merge(owner, self.value(arg, scope), arg)
                return
            owner.incomplete = owner.incomplete or f"{called}() may change it" * (scope is not self.scope)
        if called != "print" and scope is not self.scope:  # in the main program it is used, not changed
            for arg in (*node.args, *(keyword.value for keyword in node.keywords)):
                if isinstance(section := self.value(arg, scope), ConfigSection) and isinstance(
                    arg, (ast.Name, ast.Attribute)
                ):
                    section.incomplete = section.incomplete or f"{called}() may change it"

    def doubt(self, node: ast.AST, scope: dict[str, Any]) -> None:
        """Mark everything that a statement may change."""
        where = f"line {getattr(node, 'lineno', 0)} may change it ({ast.unparse(node)[:40].splitlines()[0]})"
        for name in {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and part.id in scope}:
            if isinstance(scope[name], ConfigSection):
                scope[name].incomplete = scope[name].incomplete or where
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                scope[part.id] = Unknown(f"{part.id} of line {part.lineno}")

    def call(self, node: ast.FunctionDef, scope: dict[str, Any]) -> Any:
        """Return the value of a function, or None."""
        try:
            self.run(node.body, scope)
        except Returned as returned:
            return returned.value
        return None


def unsure(first: dict[str, Any], second: dict[str, Any], unknown: Unknown) -> None:
    """Replace every value of `first` in which `second` differs by `unknown`."""
    for name in {*first, *second}:
        one, other = first.get(name, _ABSENT), second.get(name, _ABSENT)
        if isinstance(one, ConfigSection) and isinstance(other, ConfigSection):
            one.incomplete = one.incomplete or other.incomplete
            unsure(one, other, unknown)
        elif one is not other and one != other and name != SPANS:
            first[name] = unknown
            if isinstance(first, ConfigSection):
                first.spans[name] = None


_ABSENT = object()
