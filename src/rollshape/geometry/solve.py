"""Solving for N and T: any subset of N, T, N·T, M and K determines them, or contradicts itself."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from rollshape.errors import RequestError
from rollshape.geometry.divisors import cofactor, nearest_divisor, surrounding_multiples
from rollshape.geometry.request import MOST_SAMPLES, Request

DEFAULT_ROLLOUT = 2048  # samples, as in SB3 and common in continuous control
DEFAULT_NUM_STEPS = 32
DEFAULT_NUM_ENVS = 64
LEAST_NUM_STEPS = 16  # the shortest window chosen by default: GAE weighs V at its edge with .65
LEAST_NUM_ENVS = 8


@dataclass(frozen=True, slots=True)
class Shape:
    """N and T, which of them were chosen by default, and what `--on-remainder fix` changed."""

    num_envs: int
    num_steps: int
    chosen: tuple[str, ...] = ()
    repaired: str = ""

    @property
    def rollout_size(self) -> int:
        return self.num_envs * self.num_steps


def solve_shape(request: Request) -> Shape:
    """Return N and T of the request; free sizes are chosen so that M or K still divides the rollout."""
    n, t, rollout = request.num_envs, request.num_steps, _rollout_size(request)
    if n and t:
        if rollout and n * t != rollout:
            raise _contradiction(
                f"num_envs × num_steps = {n:,} × {t:,} = {n * t:,}, but rollout_size = {rollout:,}.",
                "Leave one of the three out.",
                [consistent_alternative(request, {"num_envs": n, "num_steps": t})],
            )
        return _check_size(Shape(n, t))
    if rollout and n:
        return _divide(request, rollout, n, "num_envs", "num_steps")
    if rollout and t:
        return _divide(request, rollout, t, "num_steps", "num_envs")
    if rollout:
        t = nearest_divisor(rollout, DEFAULT_NUM_STEPS)
        return Shape(rollout // t, t, chosen=("num_envs", "num_steps"))
    return _check_size(_choose(request, n, t))


def _rollout_size(request: Request) -> int | None:
    m, k, rollout = request.minibatch_size, request.num_minibatches, request.rollout_size
    if m == "auto" or k is None:
        return rollout
    if rollout is None and not (request.num_envs and request.num_steps):
        return m * k
    samples = rollout or (request.num_envs or 0) * (request.num_steps or 0)
    if m * k != samples:
        raise _contradiction(
            f"minibatch_size × num_minibatches = {m:,} × {k:,} = {m * k:,}, but the rollout has {samples:,} samples.",
            "Leave one of minibatch_size and num_minibatches out.",
        )
    return rollout


def _contradiction(message: str, fix: str, alternatives: list[dict[str, int]] | None = None) -> RequestError:
    return RequestError("contradiction", message, fix, alternatives or ())


def _divide(request: Request, rollout: int, given: int, given_name: str, wanted_name: str) -> Shape:
    """Return the shape of N·T and N (or T); a remainder is an error or repaired so that M or K still divides."""
    quotient, rest = divmod(rollout, given)
    pair = {given_name: given, wanted_name: quotient}
    if not rest:
        return Shape(pair["num_envs"], pair["num_steps"])
    multiples = surrounding_multiples(rollout, lcm(given, _required_factor(request)))
    requested = f"rollout_size {rollout:,}"
    if request.rollout_size is None:
        requested = f"minibatch_size × num_minibatches = {rollout:,}"
    if request.on_remainder != "fix":
        raise RequestError(
            "rollout-split",
            f"{requested} is not a multiple of {given_name} {given:,}: {rest:,} would be left over.",
            "Nearest valid rollout sizes: " + ", ".join(f"{size:,}" for size in multiples) + ".",
            [consistent_alternative(request, {given_name: given, wanted_name: size // given}) for size in multiples],
        )
    nearest = min(multiples, key=lambda size: abs(size - rollout))
    pair[wanted_name] = nearest // given
    note = f"{requested} → {nearest:,}, a multiple of {given_name} {given:,}"
    return Shape(pair["num_envs"], pair["num_steps"], repaired=note)


def _required_factor(request: Request) -> int:
    """Return the requested M or K, which must divide the rollout."""
    m = request.minibatch_size
    return m if isinstance(m, int) else request.num_minibatches or 1


def consistent_alternative(request: Request, sizes: dict[str, int]) -> dict[str, int]:
    """Return the sizes with all requested ones adjusted to them, so that they can be merged into the request."""
    rollout = sizes["num_envs"] * sizes["num_steps"]
    alternative = dict(sizes)
    if request.rollout_size is not None:
        alternative["rollout_size"] = rollout
    m = sizes.get("minibatch_size", request.minibatch_size)
    if request.num_minibatches is not None and isinstance(m, int):
        alternative["num_minibatches"] = rollout // m
    return alternative


def _choose(request: Request, n: int | None, t: int | None) -> Shape:
    """Choose N or T (or both) such that the rollout is a multiple of the requested M or K."""
    m, factor = request.minibatch_size, _required_factor(request)
    target = max(DEFAULT_ROLLOUT, 4 * m if isinstance(m, int) else 0)
    if t is not None:
        step = cofactor(factor, t)
        return Shape(_round_up(max(LEAST_NUM_ENVS, target // t), step), t, chosen=("num_envs",))
    chosen: tuple[str, ...] = ("num_steps",)
    if n is None:
        n, chosen = DEFAULT_NUM_ENVS, ("num_envs", "num_steps")
    power = 1 << max(0, (target // n) - 1).bit_length()
    return Shape(n, _round_up(max(LEAST_NUM_STEPS, power), cofactor(factor, n)), chosen=chosen)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _check_size(shape: Shape) -> Shape:
    if shape.rollout_size > MOST_SAMPLES:
        t = max(1, MOST_SAMPLES // shape.num_envs)
        raise RequestError(
            "whole-number",
            f"A rollout of {shape.num_envs:,} × {shape.num_steps:,} = {shape.rollout_size:,} samples exceeds the "
            f"maximum of {MOST_SAMPLES:,}.",
            f"With {shape.num_envs:,} environments use at most {t:,} steps.",
            [{"num_envs": shape.num_envs, "num_steps": t}],
        )
    return shape
