import sys
from pathlib import Path
from typing import Any

import pytest

from rollshape.errors import RequestError
from rollshape.geometry.dialects.sources import Edit
from rollshape.geometry.dialects.sources.pyfile import parse

CLASSES = """\
N = 1024  # environments
class Base:
    num_envs = N * 2
    class runner:
        num_steps: int = 24  # steps
        rate = 1e-3
class Small(Base):
    class runner(Base.runner):
        num_steps = 8 * 2
        fürther = "ü"; rate = 5
"""


def values(text: str, key: str | None = None) -> dict[str, Any]:
    return parse(text, "x.py", key).values


def test_inheritance_and_arithmetic() -> None:
    assert values(CLASSES) == {
        "Base": {"num_envs": 2048, "runner": {"num_steps": 24, "rate": 1e-3}},
        "Small": {"num_envs": 2048, "runner": {"num_steps": 16, "rate": 5, "fürther": "ü"}},
    }


def test_only_the_characters_of_the_literal_change() -> None:
    source = parse(CLASSES, "x.py")
    edited = source.edit([Edit(("Small", "runner", "num_steps"), 32), Edit(("Small", "runner", "rate"), 7)])
    assert edited == CLASSES.replace("8 * 2", "32").replace("rate = 5", "rate = 7")


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (("Base", "num_envs"), "is not a number of this file"),  # an expression with a name
        (("Small", "num_envs"), "is not a number of this file"),  # inherited
        (("Base", "runner", "rate"), ""),  # Small overrides it, so nothing else changes
        (("Base", "absent"), "is not in the file"),
    ],
)
def test_other_values_are_set_by_hand(path: tuple[str, ...], problem: str) -> None:
    source = parse(CLASSES, "x.py")
    if not problem:
        assert "rate = 3" in source.edit([Edit(path, 3)])
        return
    with pytest.raises(RequestError, match=problem) as caught:
        source.edit([Edit(path, 3)])
    assert f"Set {'.'.join(path)} to 3 by hand" in caught.value.fix


def test_a_literal_that_two_classes_share_is_set_by_hand() -> None:
    source = parse("class A:\n    n = 4\nclass B(A):\n    m = 2\n", "x.py")
    with pytest.raises(RequestError, match="cannot be edited safely"):
        source.edit([Edit(("A", "n"), 8)])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("n = 2**10 + 1", 1025),
        ("n = int(1e6) // 4", 250_000),
        ("n = -3", -3),
        ("n = max(4, 8)", 8),
        ("n = 4 if True else 5", 4),
        ("m = [4, 5]\n    n = m[1]", 5),
        ("n = os.cpu_count()", "not a constant: os.cpu_count()"),
        ("n = 9**9**9", "not a constant: 9 ** 9 ** 9"),
        ("n = 'a' * 10**9", "not a constant: 'a' * 10 ** 9"),
        ("n = [0] * 10**9", "not a constant: [0] * 10 ** 9"),
        ("n = 1 / 0", "not a constant: 1 / 0"),
        ("n = __import__('os').getpid()", "not a constant: __import__('os').getpid()"),
        ("n = 4\n    if DEBUG:\n        n = 2", "not a constant: it depends on DEBUG"),
        ("n = 4\n    if DEBUG:\n        m = 2\n    else:\n        m = 3", 4),
        ("n = 4\n    for i in range(3):\n        n = i", "not a constant: n of line 4"),
        ("n, m = 4, 5", "not a constant: an item of several"),
    ],
)
def test_only_constants_are_numbers(body: str, expected: Any) -> None:
    assert values(f"class A:\n    {body}\n")["A"]["n"] == expected


def test_post_init_of_the_most_derived_class_counts() -> None:
    text = """
class A:
    n = 1
    def __post_init__(self):
        self.n = 2
class B(A):
    def __post_init__(self):
        super().__post_init__()
        self.n += 10
class C(A):
    def __post_init__(self):
        self.m = 1
class D(A):
    pass
"""
    assert {name: level["n"] for name, level in values(text).items()} == {"A": 2, "B": 12, "C": 1, "D": 2}


def test_a_function_that_may_change_a_config_makes_it_incomplete() -> None:
    text = "def make_config():\n    c = dict(n=4)\n    tune(c)\n    return c\n"
    assert "tune() may change it" in values(text)["make_config"].incomplete


def test_nothing_is_executed_or_imported(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "evil.py").write_text(f"open({str(mark)!r}, 'w')\nclass E:\n    n = open({str(mark)!r}, 'w')\n")
    text = f"import evil\nfrom evil import E\nclass A(E):\n    m = 1\nopen({str(mark)!r}, 'w')\n"
    before = set(sys.modules)
    source = parse(text, "x.py", None, tmp_path / "x.py")
    assert source.values["A"]["m"] == 1
    assert not mark.exists()
    assert not any("evil" in name for name in set(sys.modules) - before)


@pytest.mark.parametrize(
    "text",
    [
        "class A(A):\n    n = 1",
        "class A(B):\n    n = 1\nclass B(A):\n    m = 2",
        "x = " + "(" * 500 + "1" + ")" * 500,
        "x = " + "-" * 50_000 + "1",
        "x = " + "1+" * 20_000 + "1",
        "class A:\n    n = " + "[" * 90 + "]" * 90,
        "\n".join(f"class C{i}(C{i - 1}):\n    n{i} = {i}" for i in range(300)),
        "class A:\n" + "".join(f"    n{i} = {i}\n" for i in range(20_000)),
        "def get_config():\n    return get_config()",
        "class A:\n    n = A.n",
        "def f(:",
        "\0",
    ],
    ids=range(12),
)
def test_hostile_files_are_read_or_refused(text: str) -> None:
    try:
        parse(text, "x.py")
    except RequestError as error:
        assert error.rule == "file"
        assert "x.py" in error.message


SCRIPT = "class Args:\n    num_envs: int = 8\n    num_steps: int = 16\n"


@pytest.mark.parametrize(
    "end", ['if __name__ == "__main__":\n    raise SystemExit(main())\n', "raise SystemExit(main())\n", "return 3\n"]
)
def test_a_script_may_end_with_an_exit(end: str) -> None:
    assert values(SCRIPT + end)["Args"] == {"num_envs": 8, "num_steps": 16}


@pytest.mark.parametrize(
    "body", ["    raise ValueError(1)\n", "    def __post_init__(self):\n        raise ValueError(1)\n"]
)
def test_a_class_that_cannot_be_created_is_not_read(body: str) -> None:
    with pytest.raises(RequestError):
        parse(SCRIPT + body, "x.py", "Args")
