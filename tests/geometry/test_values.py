"""Every value is a plain number within its range, or a message that names the field."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from hostile import HOSTILE, raw_errors
from rollshape.errors import RequestError
from rollshape.geometry.values import (
    DECAY,
    FINITE,
    NOT_NEGATIVE,
    POSITIVE,
    UNIT,
    parse_size,
    plain_scalar,
    plain_value,
    real_number,
    whole_number,
)


@pytest.mark.parametrize(
    "value", [4, 4.0, np.int64(4), np.uint8(4), np.float32(4), np.array(4), jnp.int32(4)], ids=repr
)
def test_whole_numbers_of_every_library(value: Any) -> None:
    number = whole_number("n", value)
    assert number == 4
    assert type(number) is int


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), np.array(0.5), jnp.float32(0.5)], ids=repr)
def test_real_numbers_of_every_library(value: Any) -> None:
    assert type(real_number("x", value)) is float
    assert real_number("x", value) == 0.5


@pytest.mark.parametrize(
    "value",
    [True, np.bool_(True), jnp.array(True), "4", b"4", None, 2.5, math.nan, math.inf, 1j, [4], np.array([4]), object()],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_number(value: Any) -> None:
    with pytest.raises(RequestError, match="n must be a whole number") as caught:
        whole_number("n", value)
    assert caught.value.rule == "whole-number"


def test_a_number_out_of_range_is_answered_with_the_nearest() -> None:
    with pytest.raises(RequestError, match="at most 100, got 101") as caught:
        whole_number("n", 101, most=100)
    assert caught.value.alternatives == [{"n": 100}]
    with pytest.raises(RequestError, match="an integer of 16,610 bits"):
        whole_number("n", 10**5000)


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        (UNIT, (0, 1, 0.5), (-1e-9, 1.1, math.nan)),
        (DECAY, (0, 0.999), (1, -0.1)),
        (POSITIVE, (1e-30, 1e30), (0, -1, 1e-300, 1e39, math.inf, 10**400)),
        (NOT_NEGATIVE, (0, 1e38), (-1e-9, math.inf)),
        (FINITE, (-1e38, 0, 1e38), (math.inf, -math.inf, math.nan, 1e39)),
    ],
)
def test_ranges(bounds: Any, inside: tuple[float, ...], outside: tuple[float, ...]) -> None:
    assert [real_number("x", value, bounds) for value in inside] == list(inside)
    for value in outside:
        with pytest.raises(RequestError, match="x must be") as caught:
            real_number("x", value, bounds)
        assert caught.value.rule == "number-range"
        assert caught.value.fix


def test_plain_values() -> None:
    options = {"a": np.int64(1), "b": (np.float32(0.5), True), "c": {"d": None, "e": "x"}}
    assert plain_value("kwargs", options) == {"a": 1, "b": [0.5, True], "c": {"d": None, "e": "x"}}
    endless: list[Any] = []
    endless.append(endless)
    for value in (endless, {1: 2}, {"a": math.nan}, {"a": np.ones(3)}, {"a": len}, {"a": {1}}, {"a": 2**64}):
        with pytest.raises(RequestError, match="kwargs"):
            plain_value("kwargs", value)


def test_plain_scalars() -> None:
    assert [plain_scalar(value) for value in (np.int64(3), np.float32(0.5), np.bool_(True), jnp.int32(2))] == [
        3, 0.5, True, 2,
    ]  # fmt: skip
    array, text = np.ones(2), "x"
    assert plain_scalar(array) is array
    assert plain_scalar(text) is text


def test_no_value_is_a_raw_error() -> None:
    calls = [
        lambda f=function, v=value: f("x", v)
        for function in (whole_number, real_number, plain_value)
        for value in HOSTILE
    ]
    assert raw_errors(calls) == []


@pytest.mark.parametrize(
    ("text", "size"),
    [("8", 8), (" 8 ", 8), ("1_000_000", 10**6), ("1e6", 10**6), ("100M", 10**8), ("2.5k", 2500), ("1.5e3", 1500),
     ("1b", 10**9), ("-1", -1), ("123456789012345678", 123456789012345678)],
)  # fmt: skip
def test_sizes_that_are_text(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "k", "eight", "2.5", "1e-3", "0x10", "1 000", "inf", "nan", "9" * 50, "1e", "_1"])
def test_text_that_is_no_size(text: str) -> None:
    with pytest.raises(ValueError):
        parse_size(text)
