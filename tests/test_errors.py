"""Every rule that an error names has a page."""

import ast
from pathlib import Path

import rollshape
from rollshape.geometry.rules import PAGES


def test_every_rule_that_is_raised_has_a_page() -> None:
    raised = set()
    for path in Path(rollshape.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("RequestError", "RunError"):
                rule = node.args[0]
                assert isinstance(rule, ast.Constant), f"{path}:{node.lineno}"
                raised.add(rule.value)
    assert len(raised) > 15
    assert raised <= set(PAGES)
