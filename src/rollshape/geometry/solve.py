"""From any subset of N, T, N·T, M and K to all of them, or to the contradiction between them."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from rollshape.errors import RequestError
from rollshape.geometry.divisors import cofactor, nearest_divisor, surrounding_multiples
from rollshape.geometry.request import MOST_SAMPLES, Request

DEFAULT_ROLLOUT = 2048  # samples; SB3's and the continuous-control folklore's order of magnitude
DEFAULT_NUM_STEPS = 32
DEFAULT_NUM_ENVS = 64
LEAST_NUM_STEPS = 16  # the shortest window that is chosen unasked: GAE gives V's edge a weight of .65 there
LEAST_NUM_ENVS = 8


@dataclass(frozen=True, slots=True)
class Shape:
    """N and T, and which of them nobody asked for. `repaired` tells what `--on-remainder fix` changed."""

    num_envs: int
    num_steps: int
    chosen: tuple[str, ...] = ()
    repaired: str = ""

    @property
    def rollout_size(self) -> int:
        return self.num_envs * self.num_steps


def solve_shape(request: Request) -> Shape:
    """N and T from what was asked; what is free is chosen so that M or K still divides."""
    n, t, b = request.num_envs, request.num_steps, _rollout_size(request)
    if n and t:
        if b and n * t != b:
            raise _contradiction(
                f"num_envs × num_steps = {n:,} × {t:,} = {n * t:,}, but rollout_size = {b:,}.",
                "Leave one of the three out.",
                [agreeing(request, {"num_envs": n, "num_steps": t})],
            )
        return _bounded(Shape(n, t))
    if b and n:
        return _divide(request, b, n, "num_envs", "num_steps")
    if b and t:
        return _divide(request, b, t, "num_steps", "num_envs")
    if b:
        t = nearest_divisor(b, DEFAULT_NUM_STEPS)
        return Shape(b // t, t, chosen=("num_envs", "num_steps"))
    return _bounded(_choose(request, n, t))


def _rollout_size(request: Request) -> int | None:
    m, k, b = request.minibatch_size, request.num_minibatches, request.rollout_size
    if m == "auto" or k is None:
        return b
    if b is None and not (request.num_envs and request.num_steps):
        return m * k
    asked = b or (request.num_envs or 0) * (request.num_steps or 0)
    if m * k != asked:
        raise _contradiction(
            f"minibatch_size × num_minibatches = {m:,} × {k:,} = {m * k:,}, but the rollout has {asked:,} samples.",
            "Leave one of minibatch_size and num_minibatches out.",
        )
    return b


def _contradiction(message: str, fix: str, alternatives: list[dict[str, int]] | None = None) -> RequestError:
    return RequestError("contradiction", message, fix, alternatives or ())


def _divide(request: Request, rollout: int, given: int, given_name: str, wanted_name: str) -> Shape:
    """T from N·T and N (or N from T); a remainder is refused or repaired, such that M or K still divides."""
    quotient, rest = divmod(rollout, given)
    pair = {given_name: given, wanted_name: quotient}
    if not rest:
        return Shape(pair["num_envs"], pair["num_steps"])
    legal = surrounding_multiples(rollout, lcm(given, _multiple(request)))
    asked = f"rollout_size {rollout:,}"
    if request.rollout_size is None:
        asked = f"minibatch_size × num_minibatches = {rollout:,}"
    if request.on_remainder != "fix":
        raise RequestError(
            "rollout-split",
            f"{asked} is not a multiple of {given_name} {given:,}: {rest:,} would be left over.",
            "Nearest legal rollouts: " + ", ".join(f"{size:,}" for size in legal) + ".",
            [agreeing(request, {given_name: given, wanted_name: size // given}) for size in legal],
        )
    nearest = min(legal, key=lambda size: abs(size - rollout))
    pair[wanted_name] = nearest // given
    return Shape(
        pair["num_envs"], pair["num_steps"], repaired=f"{asked} → {nearest:,}, a multiple of {given_name} {given:,}"
    )


def _multiple(request: Request) -> int:
    """What the rollout must be a multiple of, by the M or K that was asked for."""
    m = request.minibatch_size
    return m if isinstance(m, int) else request.num_minibatches or 1


def agreeing(request: Request, sizes: dict[str, int]) -> dict[str, int]:
    """An alternative with all that was asked for brought into agreement with it: it can be merged into the request."""
    rollout = sizes["num_envs"] * sizes["num_steps"]
    agreed = dict(sizes)
    if request.rollout_size is not None:
        agreed["rollout_size"] = rollout
    m = sizes.get("minibatch_size", request.minibatch_size)
    if request.num_minibatches is not None and isinstance(m, int):
        agreed["num_minibatches"] = rollout // m
    return agreed


def _choose(request: Request, n: int | None, t: int | None) -> Shape:
    """Fill in N or T (or both) such that the rollout is a multiple of the M or K that was asked for."""
    m, multiple = request.minibatch_size, _multiple(request)
    wanted = max(DEFAULT_ROLLOUT, 4 * m if isinstance(m, int) else 0)
    if t is not None:
        step = cofactor(multiple, t)
        return Shape(_round_up(max(LEAST_NUM_ENVS, wanted // t), step), t, chosen=("num_envs",))
    chosen: tuple[str, ...] = ("num_steps",)
    if n is None:
        n, chosen = DEFAULT_NUM_ENVS, ("num_envs", "num_steps")
    power = 1 << max(0, (wanted // n) - 1).bit_length()
    return Shape(n, _round_up(max(LEAST_NUM_STEPS, power), cofactor(multiple, n)), chosen=chosen)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _bounded(shape: Shape) -> Shape:
    if shape.rollout_size > MOST_SAMPLES:
        t = max(1, MOST_SAMPLES // shape.num_envs)
        raise RequestError(
            "whole-number",
            f"A rollout of {shape.num_envs:,} × {shape.num_steps:,} = {shape.rollout_size:,} samples is beyond "
            f"{MOST_SAMPLES:,}, more than any machine holds.",
            f"At {shape.num_envs:,} environments at most {t:,} steps.",
            [{"num_envs": shape.num_envs, "num_steps": t}],
        )
    return shape
