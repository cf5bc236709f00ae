"""YAML of any size and depth is read or refused within seconds."""

import time
from itertools import pairwise

import pytest

from rollshape.errors import RequestError
from rollshape.geometry.dialects.sources.yamlfile import parse
from rollshape.geometry.dialects.sources.yamlnodes import MOST_VALUES

SECONDS = 10.0  # of processor time, on a slow machine; without the limit the first would take more
LETTERS = "abcdefghijklmnopqrst"


def keys(count: int) -> str:
    return "\n".join(f"k{i}: {i}" for i in range(count))


BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "\n".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in pairwise(LETTERS)
)
MERGES = "a: &a {x: 1}\n" + "\n".join(
    f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 9)}]}}" for old, new in pairwise(LETTERS)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (keys(90_000)[:500_000], "line 10000: the file has more than 20,000 keys and values"),
        ("a: [" + "1," * 90_000 + "]", "more than 20,000"),
        (BOMB, "after expanding aliases"),
        (MERGES, "after expanding aliases"),
        ("a: &a [*a]", "after expanding aliases"),
        ("a: &a {b: *a}", "after expanding aliases"),
        ("[" * 100_000, "nested too deeply"),
        ("- " * 100_000, "nested too deeply"),
    ],
    ids=["keys", "items", "aliases", "merges", "loop", "loop of maps", "brackets", "dashes"],
)
def test_what_would_take_long_is_refused(text: str, message: str) -> None:
    started = time.process_time()
    with pytest.raises(RequestError, match=message):
        parse(text)
    assert time.process_time() - started < SECONDS


def test_what_is_large_is_read() -> None:
    assert len(parse(keys(MOST_VALUES // 2 - 1)).values) == MOST_VALUES // 2 - 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " + "9" * 4000, "is not an integer of at most 512 bits"),
        ("a: " + "9" * 5000, "is not an integer of at most 512 bits"),
        ("a: 0x" + "f" * 5000, "is not an integer of at most 512 bits"),
        ("a: !!int abc", "'abc' is not an integer"),
        ("a: !!float abc", "'abc' is not a number"),
        ("a: !!bool maybe", "'maybe' is not true or false"),
        ("a: !!binary aGVsbG8=", "the tag !!binary is not allowed"),
        ("a: !!set {1, 2}", "the tag !!set is not allowed"),
        ("a: !" + "x" * 5000, "the tag !xxx"),
        ("a: *" + "x" * 5000, "undefined alias"),
    ],
)
def test_messages_are_short_lines(text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        parse(text)
    assert "line 1" in caught.value.message
    assert len(caught.value.message) < 300


def test_anchors_of_one_name() -> None:
    assert parse("a: &x 1\nb: &x 2\nc: *x").values == {"a": 1, "b": 2, "c": 2}


def test_numbers_without_end() -> None:
    values = parse("a: .inf\nb: -.INF\nc: 1e400").values
    assert list(values.values()) == [float("inf"), float("-inf"), float("inf")]
