"""Numbers and values as text."""

import numpy as np
import pytest

from hostile import HOSTILE, BrokenText
from rollshape.formatting import LONGEST_REPR, format_integer, short_repr


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
def test_every_value_is_one_short_line(value: object) -> None:
    text = short_repr(value)
    assert 0 < len(text) <= LONGEST_REPR
    assert "\n" not in text


def test_short_repr() -> None:
    assert short_repr(64) == "64"
    assert short_repr("abc") == "'abc'"
    assert short_repr(np.ones((2, 2))) == "array([[1., 1.], [1., 1.]])"
    assert short_repr("a" * 100).endswith("aaa…")
    assert short_repr(10**5000) == short_repr(-(10**5000)) == "an integer of 16,610 bits"
    assert short_repr([10**5000]) == "an object of type list"
    assert short_repr(BrokenText()) == "an object of type BrokenText"


def test_format_integer() -> None:
    assert format_integer(2**40) == "1,099,511,627,776"
    assert format_integer(10**5000) == "an integer of 16,610 bits"
