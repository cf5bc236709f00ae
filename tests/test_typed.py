"""Values of the wrong type are named by where they stand."""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np
import pytest
from numpy.typing import NDArray

from rollshape.typed import check_types, parse_json


class Pair(NamedTuple):
    first: int
    second: float


@dataclass
class Sample:
    name: str
    sizes: tuple[int, ...]
    span: tuple[int, int] | None
    pairs: list[Pair]
    by_name: dict[str, float | None]
    kind: Literal["a", "b"]
    array: NDArray[np.float64]


class RequiredEntry(TypedDict):
    name: str


class Entry(RequiredEntry, total=False):
    more: float


GOOD: dict[str, Any] = {
    "name": "x", "sizes": (1, 2), "span": (1, 2), "pairs": [Pair(1, 2.0), Pair(1, 2)],
    "by_name": {"y": None, "z": math.nan}, "kind": "a", "array": np.zeros(2),
}  # fmt: skip


def test_right_values_pass() -> None:
    check_types(Sample(**GOOD), Sample)
    check_types(Sample(**{**GOOD, "span": None, "by_name": {}, "pairs": []}), Sample)
    check_types({"name": "x"}, Entry)
    check_types({"name": "x", "more": 2, "unknown": []}, Entry)
    check_types({"anything": [1]}, dict)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": None}, "name is null, not text"),
        ({"sizes": (1, True)}, r"sizes\[1\] is True, not a whole number"),
        ({"sizes": [1]}, r"sizes is \[1\], not a list"),
        ({"sizes": (1, 2**63)}, r"sizes\[1\] is 9223372036854775808, not a whole number"),
        ({"span": (1, 2, 3)}, r"span is \(1, 2, 3\), not a list of 2"),
        ({"pairs": [Pair(1, "x")]}, r"pairs\[0\].second is 'x', not a finite number"),  # type: ignore[arg-type]
        ({"pairs": [None]}, r"pairs\[0\] is null, not of type Pair"),
        ({"by_name": {"y": math.inf}}, "by_name.y is inf, not a finite number"),
        ({"by_name": {"y": 10**400}}, r"by_name.y is 1000\S*\.\.\., not a finite number"),
        ({"by_name": {1: 2.0}}, "a key of by_name is 1, not text"),
        ({"by_name": []}, r"by_name is \[\], not a mapping"),
        ({"kind": "c"}, "kind is 'c', not one of a, b"),
        ({"kind": []}, r"kind is \[\], not one of a, b"),
        ({"array": [0.0]}, r"array is \[0.0\], not a list"),
    ],
)
def test_a_wrong_value_is_named(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        check_types(Sample(**{**GOOD, **changes}), Sample)


def test_entries_of_a_document() -> None:
    with pytest.raises(ValueError, match=r"entry\.name is missing"):
        check_types({}, Entry, "entry")
    with pytest.raises(ValueError, match="more is 'x', not a finite number"):
        check_types({"name": "x", "more": "x"}, Entry)
    with pytest.raises(ValueError, match="the document is 3, not a mapping"):
        check_types(3, Entry)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "{", "", "[" * 100_000, b"\xff", "1" * 5000])
def test_what_is_not_json(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(text)
