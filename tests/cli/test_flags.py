from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from rollshape.cli.flags import CommonArgs, parse, whole
from rollshape.errors import RequestError


@dataclass(frozen=True, kw_only=True)
class Args(CommonArgs):
    """A command."""

    path: Annotated[str, "a file"]
    num_envs: Annotated[int | None, "N"] = None
    size: Annotated[int | Literal["auto"], "M"] = "auto"
    rate: Annotated[float, "a rate"] = 0.5
    shape: Annotated[tuple[int, ...] | None, "a shape"] = None
    mode: Annotated[Literal["a", "b"], "a mode"] = "a"
    from_: Annotated[str | None, "a keyword"] = None


def test_every_kind_of_field() -> None:
    numbers = ["--num_envs=1e3", "--size", "64", "--rate", "1e-3", "--shape", "84", "84", "4"]
    argv = ["x.yaml", *numbers, "--mode", "b", "--from", "sb3", "--json"]
    assert parse(Args, "test", argv) == Args(
        path="x.yaml", num_envs=1000, size=64, rate=1e-3, shape=(84, 84, 4), mode="b", from_="sb3", json=True
    )
    assert parse(Args, "test", ["x", "--size", "auto"]) == Args(path="x")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["x", "--num-envs", "x"], "'x' is not a whole number"),
        (["x", "--size", "many"], "'many' is not one of auto or a whole number"),
        (["x", "--mode", "c"], "'c' is not one of a, b"),
        (["x", "--rate", "fast"], "'fast' is not a number"),
        (["x", "--num-envz", "3"], "Unknown argument --num-envz"),
        ([], "required: PATH"),
    ],
)
def test_messages(argv: list[str], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        parse(Args, "test", argv)


def test_an_underscore_in_a_value_is_left_alone() -> None:
    assert parse(Args, "test", ["my_file.yaml", "--from=rl_games"]).from_ == "rl_games"


def test_whole() -> None:
    assert [whole(text) for text in ("64", "500_000", "1e6", "2.0")] == [64, 500_000, 1_000_000, 2]
    for text in ("2.5", "nan", "inf", "", "x"):
        with pytest.raises((ValueError, OverflowError)):
            whole(text)
