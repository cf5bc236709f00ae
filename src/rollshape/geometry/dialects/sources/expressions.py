"""Evaluating the expressions of a Python config without running it.

Literals, arithmetic on them, names that were assigned before, attributes and items of mappings, and a few calls that
only build a mapping. Everything else is `Unknown`, with its source text. Nothing of the file is executed or imported.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.sources.source import ConfigSection

LARGEST_INTEGER = 512  # bits
LONGEST_LIST = 10_000
MOST_STEPS = 200_000
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.eq, ast.IsNot: operator.ne, ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_NUMBER_CALLS: dict[str, Callable[..., Any]] = {"int": int, "float": float, "abs": abs, "max": max, "min": min}
_TEXT_METHODS = ("startswith", "endswith", "lower", "upper")
# Calls whose keywords are the values: the classes' own defaults are those that the dialects know.
KNOWN_CLASSES = frozenset(
    {"dict", "create", "ConfigDict", "FrozenConfigDict", "SimpleNamespace", "Namespace", "RslRlPpoAlgorithmCfg",
     "RslRlOnPolicyRunnerCfg", "PPOConfig", "APPOConfig", "IMPALAConfig", "PPO", "RecurrentPPO"}
)  # fmt: skip
_COPIES = ("replace", "copy_with", "copy", "unlock", "lock", "to_dict", "copy_and_resolve_references", "unlocked")


class Unknown:
    """A value that is not a constant."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split())[:80]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and other.text == self.text

    __hash__ = None  # type: ignore[assignment]


class Expressions:
    """Evaluates expressions; a subclass knows the classes of the file."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.steps = 0
        self.lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)  # as Python's tokenizer counts lines

    def new_instance(self, dotted: str, scope: dict[str, Any]) -> ConfigSection | None:
        """Return an instance of a class of the file, or None if the file does not define it."""
        raise NotImplementedError

    def unknown(self, node: ast.AST) -> Unknown:
        return Unknown(ast.unparse(node))

    def value(self, node: ast.expr, scope: dict[str, Any]) -> Any:
        """Return the value of an expression, or an Unknown."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise RequestError("file", f"{self.name} is too long to read as a config.", "Give the config only.")
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        try:
            result = self.unknown(node) if method is None else method(node, scope)
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
            return self.unknown(node)
        if isinstance(result, int) and result.bit_length() > LARGEST_INTEGER:
            return self.unknown(node)
        if isinstance(result, (list, str)) and len(result) > LONGEST_LIST:
            return self.unknown(node)
        return result

    def known(self, node: ast.expr, scope: dict[str, Any]) -> Any:
        """Return the value of an expression; a ValueError if it is unknown."""
        value = self.value(node, scope)
        if isinstance(value, Unknown):
            raise ValueError
        return value

    def _constant(self, node: ast.Constant, _: dict[str, Any]) -> Any:
        return node.value if isinstance(node.value, (int, float, str, type(None))) else self.unknown(node)

    def _name(self, node: ast.Name, scope: dict[str, Any]) -> Any:
        if node.id in scope:
            return scope[node.id]
        instance = self.new_instance(node.id, scope)
        return self.unknown(node) if instance is None else instance

    def _attribute(self, node: ast.Attribute, scope: dict[str, Any]) -> Any:
        value = self.value(node.value, scope)
        return value[node.attr] if isinstance(value, ConfigSection) and node.attr in value else self.unknown(node)

    def _subscript(self, node: ast.Subscript, scope: dict[str, Any]) -> Any:
        return self.known(node.value, scope)[self.known(node.slice, scope)]

    def _unaryop(self, node: ast.UnaryOp, scope: dict[str, Any]) -> Any:
        value = self.known(node.operand, scope)
        if isinstance(node.op, ast.Not):
            return not value
        return -value if isinstance(node.op, ast.USub) else +value

    def _binop(self, node: ast.BinOp, scope: dict[str, Any]) -> Any:
        left, right = self.known(node.left, scope), self.known(node.right, scope)
        if isinstance(node.op, ast.Pow):
            return left**right if abs(right) <= LARGEST_INTEGER and abs(left) <= 1e9 else self.unknown(node)
        if not (_is_number(left) and _is_number(right)) and not (
            isinstance(node.op, ast.Add) and type(left) is type(right) and isinstance(left, (str, list))
        ):
            return self.unknown(node)
        return _OPERATORS[type(node.op)](left, right)

    def _boolop(self, node: ast.BoolOp, scope: dict[str, Any]) -> Any:
        stop = isinstance(node.op, ast.Or)
        value: Any = not stop
        for item in node.values:
            value = self.known(item, scope)
            if bool(value) is stop:
                break
        return value

    def _compare(self, node: ast.Compare, scope: dict[str, Any]) -> Any:
        left = self.known(node.left, scope)
        for test, item in zip(node.ops, node.comparators, strict=True):
            right = self.known(item, scope)
            if isinstance(right, list) and any(isinstance(entry, Unknown) for entry in right):
                return self.unknown(node)
            if not _COMPARISONS[type(test)](left, right):
                return False
            left = right
        return True

    def _ifexp(self, node: ast.IfExp, scope: dict[str, Any]) -> Any:
        return self.value(node.body if self.known(node.test, scope) else node.orelse, scope)

    def _list(self, node: ast.List | ast.Tuple | ast.Set, scope: dict[str, Any]) -> Any:
        return [self.value(item, scope) for item in node.elts]

    _tuple = _set = _list

    def _dict(self, node: ast.Dict, scope: dict[str, Any]) -> Any:
        section = ConfigSection(origin="dict")
        for name, item in zip(node.keys, node.values, strict=True):
            if name is None:
                self.merge(section, self.value(item, scope), item)
            else:
                section.put(str(self.known(name, scope)), self.value(item, scope), self.span(item))
        return section

    def merge(self, section: ConfigSection, other: Any, node: ast.expr) -> None:
        """Add the values of `**other` to a section."""
        if not isinstance(other, Mapping):
            section.incomplete = section.incomplete or f"it contains the values of {ast.unparse(node)[:60]}"
            return
        for name, value in other.items():
            section.put(name, deepcopy(value), getattr(other, "spans", {}).get(name))
        section.incomplete = section.incomplete or getattr(other, "incomplete", "")

    def _call(self, node: ast.Call, scope: dict[str, Any]) -> Any:
        dotted = ast.unparse(node.func)
        short = dotted.rpartition(".")[2]
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value, scope)
            if isinstance(owner, str) and short in _TEXT_METHODS:
                return getattr(owner, short)(*[_text_or_texts(self.known(arg, scope)) for arg in node.args])
            if isinstance(owner, ConfigSection):
                return self._method(owner, short, node, scope)
        if short in _NUMBER_CALLS and dotted == short:
            numbers = [self.known(arg, scope) for arg in node.args]
            return _NUMBER_CALLS[short](*numbers) if all(map(_is_number, numbers)) else self.unknown(node)
        if short == "field":
            return self._field(node, scope)
        if short in ("deepcopy", "copy") and node.args:
            return deepcopy(self.value(node.args[0], scope))
        if short == "replace" and node.args:  # dataclasses.replace
            return self.with_keywords(deepcopy(self.known(node.args[0], scope)), node, scope)
        if short == "partial" and node.args:
            return self.with_keywords(ConfigSection(origin=ast.unparse(node.args[0])), node, scope)
        instance = self.new_instance(dotted, scope)
        if instance is None:
            if short not in KNOWN_CLASSES and not short[:1].isupper():
                return self.unknown(node)
            elsewhere = "" if short in KNOWN_CLASSES else f"{short}, whose defaults are in another file"
            instance = ConfigSection(origin=short, incomplete=elsewhere)
            for arg in node.args:
                if isinstance(mapping := self.value(arg, scope), Mapping):
                    self.merge(instance, mapping, arg)
        return self.with_keywords(instance, node, scope)

    def _method(self, owner: ConfigSection, method: str, node: ast.Call, scope: dict[str, Any]) -> Any:
        if method == "get" and node.args:
            name = self.known(node.args[0], scope)
            return owner[name] if name in owner else self.value(node.args[1], scope) if node.args[1:] else None
        if method in _COPIES or (owner.origin.endswith("Config") and not node.args[1:]):
            return self.with_keywords(deepcopy(owner), node, scope)  # RLlib's PPOConfig().training(…)
        return self.unknown(node)

    def _field(self, node: ast.Call, scope: dict[str, Any]) -> Any:
        for keyword in node.keywords:
            if keyword.arg == "default":
                return self.value(keyword.value, scope)
            if keyword.arg == "default_factory":
                if isinstance(keyword.value, ast.Lambda):
                    return self.value(keyword.value.body, scope)
                return self.value(ast.Call(keyword.value, [], []), scope)
        return self.unknown(node)

    def with_keywords(self, section: Any, node: ast.Call, scope: dict[str, Any]) -> Any:
        """Return the section with the keywords of a call."""
        if not isinstance(section, ConfigSection):
            return self.unknown(node)
        for keyword in node.keywords:
            value = self.value(keyword.value, scope)
            if keyword.arg is None:
                self.merge(section, value, keyword.value)
            else:
                section.put(keyword.arg, value, self.span(keyword.value))
        return section

    def span(self, node: ast.expr) -> tuple[int, int] | None:
        """Return the characters of an expression that consists of literals only."""
        if not hasattr(node, "lineno") or any(
            not isinstance(part, (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop))
            for part in ast.walk(node)
        ):
            return None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno or 1, node.end_col_offset or 0)

    def offset(self, line: int, column: int) -> int:
        """Return the index of a position in the text; Python counts columns in bytes."""
        before = sum(map(len, self.lines[: line - 1]))
        return before + len(self.lines[line - 1].encode()[:column].decode(errors="ignore"))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _text_or_texts(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
