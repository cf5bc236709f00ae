"""The range of every field stands beside it, and one function checks them all."""

import math
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_args, get_type_hints

import numpy as np
import pytest

from rollshape.cli.bench import BenchArgs
from rollshape.cli.eval import EvalArgs
from rollshape.errors import RequestError
from rollshape.geometry.fields import check_value, field_table, new_record
from rollshape.geometry.request import Request
from rollshape.geometry.values import COUNT, UNIT, Range
from rollshape.probes.request import ProbeRequest
from rollshape.training.spec import Spec


@dataclass(frozen=True, kw_only=True)
class Sample:
    count: Annotated[int | None, "a number", COUNT] = None
    share: Annotated[float, "a share", UNIT] = 0.5
    size: Annotated[int | Literal["auto"], "a number or a word", COUNT] = "auto"
    sizes: Annotated[tuple[int, ...], "numbers", Range(1, 9)] = (1,)
    mode: Annotated[Literal["a", "b"], "a word"] = "a"
    modes: Annotated[tuple[Literal["a", "b"], ...], "words"] = ()
    flag: Annotated[bool, "yes or no"] = False
    name: Annotated[str | None, "text"] = None
    options: Annotated[dict[str, Any] | None, "anything"] = None


@pytest.mark.parametrize("cls", [Request, Spec, ProbeRequest, EvalArgs, BenchArgs])
def test_every_number_has_a_range(cls: type) -> None:
    hints = get_type_hints(cls, include_extras=True)
    table = field_table(cls)
    for field in fields(cls):
        entry = table[field.name]
        if int in (entry.kind, entry.item) or entry.kind is float:
            assert any(isinstance(note, Range) for note in get_args(hints[field.name])), field.name
            if field.default is not None:
                assert check_value(field.name, entry, field.default) == field.default


def test_values_are_converted() -> None:
    record = new_record(
        Sample,
        Sample(count=3),
        {"share": np.float32(1), "size": np.int64(4), "sizes": [np.int8(2), 3.0], "modes": ["b", "a"],
         "flag": np.bool_(True), "name": np.str_("x"), "options": {"a": (1,)}},
    )  # fmt: skip
    assert record == Sample(
        count=3, share=1.0, size=4, sizes=(2, 3), modes=("b", "a"), flag=True, name="x", options={"a": [1]}
    )
    assert [type(value) for value in vars(record).values()] == [int, float, int, tuple, str, tuple, bool, str, dict]
    assert new_record(Sample, None, {"sizes": 5}).sizes == (5,)
    assert new_record(Sample, None, {"sizes": np.array([5, 6])}).sizes == (5, 6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 0}, "count must be at least 1"),
        ({"count": "3"}, "count must be a whole number, got '3'"),
        ({"share": math.nan}, "share must be a number in .0, 1., got nan"),
        ({"share": None}, "share must be a number"),
        ({"size": "many"}, "size must be one of auto or a whole number, got 'many'"),
        ({"size": None}, "size must be a whole number"),
        ({"sizes": (3, 10)}, r"sizes\[1\] must be at most 9"),
        ({"sizes": [1] * 65}, "sizes has 65 values"),
        ({"sizes": "12"}, r"sizes\[0\] must be a whole number"),
        ({"mode": "c"}, "mode must be one of a, b, got 'c'"),
        ({"modes": ["a", "c"]}, r"modes\[1\] must be one of a, b, got 'c'"),
        ({"modes": 3}, r"modes\[0\] must be one of a, b, got 3"),
        ({"mode": np.array(["a"])}, "mode must be one of a, b"),
        ({"flag": 1}, "flag must be true or false, got 1"),
        ({"name": b"x"}, "name must be text"),
        ({"options": [1]}, "options must be a mapping"),
        ({"cuont": 3}, "There is no field 'cuont'"),
    ],
)
def test_messages(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        new_record(Sample, None, changes)
    assert caught.value.fix


def test_an_unknown_field_is_answered_with_the_nearest() -> None:
    with pytest.raises(RequestError) as caught:
        new_record(Sample, None, {"cuont": 3})
    assert "Did you mean count?" in caught.value.fix
    with pytest.raises(RequestError, match="A Sample is expected, got 5"):
        new_record(Sample, 5, {})  # type: ignore[type-var]
