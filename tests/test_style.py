"""Names: one class per name, and words that a reader of RL code expects (docs/architecture.md)."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import rollshape

SOURCE = Path(rollshape.__file__).parent
NOT_A_NAME = {
    "told", "seen", "shown", "acted", "judged", "absorbed", "moved", "watched", "spread", "found", "each", "own",
    "TOGETHER", "APART", "LAYOUT", "hear", "say", "film", "Ask", "hire", "buried",
}  # fmt: skip


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def test_no_two_classes_have_one_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: places for name, places in homes.items() if len(places) > 1 and not name.startswith("_")} == {}


def names_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every name that a module gives: to functions, classes, arguments, attributes and variables."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def test_no_name_is_a_riddle() -> None:
    riddles = [
        f"{path.relative_to(SOURCE)}:{line} {name}"
        for path, tree in modules()
        for line, name in names_in(tree)
        if name.lstrip("_") in NOT_A_NAME
    ]
    assert riddles == []
