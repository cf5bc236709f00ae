"""A wrong call of a public function is a message."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from rollshape.errors import RequestError
from rollshape.geometry.calls import check_arguments
from rollshape.geometry.values import SEED


@check_arguments
def sample(
    config: Mapping[str, Any],
    name: str,
    *,
    out: str | Path | None = None,
    seed: Annotated[int | None, SEED] = None,
    update: int | Literal["latest"] = "latest",
    track: Sequence[str] = (),
    verbose: bool = True,
    on_row: Callable[[int], None] | None = None,
    network: Any = None,
    **options: Any,
) -> tuple[Any, ...]:
    """Return the arguments."""
    return config, name, out, seed, update, tuple(track), verbose, on_row, network, options


def test_what_is_right_arrives() -> None:
    result = sample({}, "x", out="y", seed=np.uint8(3), update=4, track=["a"], verbose=False, network=1, extra=2)
    assert result == ({}, "x", "y", 3, 4, ("a",), False, None, 1, {"extra": 2})
    assert type(result[3]) is int
    assert sample.__doc__ == "Return the arguments."


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((), {}, "missing a required argument"),
        (({}, "x", 3), {}, "too many positional arguments"),
        (({},), {"nmae": "x"}, "missing a required argument: 'name'"),
        ((3, "x"), {}, "config must be a Mapping, got 3"),
        (({}, 3), {}, "name must be text, got 3"),
        (({}, b"x"), {}, "name must be text"),
        (({}, "x"), {"out": 3}, "out must be a str or Path, got 3"),
        (({}, "x"), {"seed": -1}, "seed must be at least 0"),
        (({}, "x"), {"seed": "1"}, "seed must be a whole number"),
        (({}, "x"), {"update": "first"}, "update must be one of latest or a whole number, got 'first'"),
        (({}, "x"), {"track": "wandb"}, "track must be a Sequence"),
        (({}, "x"), {"track": [3]}, "track must be a Sequence"),
        (({}, "x"), {"verbose": 1}, "verbose must be true or false"),
        (({}, "x"), {"on_row": 3}, "on_row must be a Callable, got 3"),
    ],
)
def test_messages(args: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        sample(*args, **options)


def test_a_misspelt_argument_is_answered_with_the_nearest() -> None:
    with pytest.raises(RequestError) as caught:
        sample({}, nmae="x")
    assert "Did you mean name?" in caught.value.fix


def test_an_error_inside_is_left_alone() -> None:
    @check_arguments
    def broken(x: int) -> None:
        raise TypeError(f"mine {x}")

    with pytest.raises(TypeError, match="mine 3"):
        broken(3)
