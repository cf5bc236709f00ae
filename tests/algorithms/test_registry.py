"""One list of algorithms, and nobody else who knows their names."""

import ast
from pathlib import Path

import pytest

import rollshape
from rollshape.algorithms.registry import ALGORITHMS
from rollshape.errors import RequestError
from rollshape.geometry.algorithms import RULES
from rollshape.training.spec import Spec, checked_spec

SOURCE = Path(rollshape.__file__).parent
AT_HOME = ("algorithms", "geometry")


def compared_names(path: Path, root: Path = SOURCE) -> list[str]:
    """Algorithm names that a file compares something with, as `file:line name`."""
    compared = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Compare):
            continue
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and part.value in ALGORITHMS:
                compared.append(f"{path.relative_to(root)}:{node.lineno} {part.value}")
    return compared


def test_every_algorithm_has_a_class_and_asks_something_of_a_plan() -> None:
    assert set(ALGORITHMS) == set(RULES)
    for name, algorithm in ALGORITHMS.items():
        assert algorithm.uses_replay == RULES[name].uses_replay


def test_nobody_else_compares_an_algorithms_name() -> None:
    files = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in AT_HOME]
    assert len(files) > 50
    assert [entry for path in files for entry in compared_names(path)] == []


def test_the_check_itself_finds_a_comparison(tmp_path: Path) -> None:
    file = tmp_path / "guilty.py"
    file.write_text('if spec.algo in ("ppo", "x"):\n    pass\nname = "ppo"\n')
    assert compared_names(file, tmp_path) == ["guilty.py:1 ppo"]


@pytest.mark.parametrize(
    ("algo", "changes", "owner"),
    [
        ("a2c", {"clip_range": 0.1}, "ppo"),
        ("ppo", {"baseline": "mean"}, "reinforce"),
        ("ppo", {"polyak": 0.9}, "sac"),
        ("sac", {"normalize_observations": True}, "ppo"),
        ("reinforce", {"target_kl": 0.01}, "ppo"),
        ("ppo", {"proximal_decay": 0.5}, "ppo-ewma"),
        ("ppo-ewma", {"target_kl": 0.01}, "ppo"),
    ],
)
def test_a_setting_of_another_algorithm_is_refused(algo: str, changes: dict[str, object], owner: str) -> None:
    with pytest.raises(RequestError, match=next(iter(changes))) as caught:
        checked_spec(Spec(algo=algo, **changes))  # type: ignore[arg-type]
    assert owner in caught.value.message
    assert algo in caught.value.message
