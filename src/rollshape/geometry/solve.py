"""Solving for N and T: any subset of N, T, N·T, M and K determines them, or contradicts itself."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from rollshape.errors import RequestError
from rollshape.geometry.divisors import cofactor, nearest_divisor, surrounding_multiples
from rollshape.geometry.minibatch import automatic_minibatch
from rollshape.geometry.request import Request
from rollshape.geometry.values import MOST_SAMPLES

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
    n, t = request.num_envs, request.num_steps
    if n and t:
        check_size(n, t)
    rollout = _rollout_size(request)
    if n and t:
        if rollout and n * t != rollout:
            raise _contradiction(
                f"num_envs × num_steps = {n:,} × {t:,} = {n * t:,}, but rollout_size = {rollout:,}.",
                "Leave one of the three out.",
                [consistent_alternative(request, {"num_envs": n, "num_steps": t})],
            )
        return Shape(n, t)
    if rollout and n:
        return _divide(request, rollout, n, "num_envs", "num_steps")
    if rollout and t:
        return _divide(request, rollout, t, "num_steps", "num_envs")
    if rollout:
        t = nearest_divisor(rollout, DEFAULT_NUM_STEPS)
        return Shape(rollout // t, t, chosen=("num_envs", "num_steps"))
    shape = _choose(request, n, t)
    check_size(shape.num_envs, shape.num_steps)
    return shape


def _rollout_size(request: Request) -> int | None:
    m, k, rollout = request.minibatch_size, request.num_minibatches, request.rollout_size
    if m == "auto" or k is None:
        return rollout
    if rollout is None and not (request.num_envs and request.num_steps):
        if m * k > MOST_SAMPLES:
            most = MOST_SAMPLES // m
            raise RequestError(
                "whole-number",
                f"A rollout of {k:,} minibatches of {m:,} = {m * k:,} samples exceeds the maximum of {MOST_SAMPLES:,}.",
                f"With minibatches of {m:,} use at most {most:,} of them.",
                [{"num_minibatches": most}],
            )
        return m * k
    samples = rollout or (request.num_envs or 0) * (request.num_steps or 0)
    if m * k != samples:
        size = nearest_divisor(samples, m)
        raise _contradiction(
            f"minibatch_size × num_minibatches = {m:,} × {k:,} = {m * k:,}, but the rollout has {samples:,} samples.",
            "Leave one of minibatch_size and num_minibatches out.",
            [{"minibatch_size": size, "num_minibatches": samples // size}],
        )
    return rollout


def _contradiction(message: str, fix: str, alternatives: list[dict[str, int]]) -> RequestError:
    return RequestError("contradiction", message, fix, alternatives)


def _divide(request: Request, rollout: int, given: int, given_name: str, wanted_name: str) -> Shape:
    """Return the shape of N·T and N (or T); a remainder is an error or repaired so that M or K still divides."""
    quotient, rest = divmod(rollout, given)
    pair = {given_name: given, wanted_name: quotient}
    if not rest:
        return Shape(pair["num_envs"], pair["num_steps"])
    factor = _required_factor(request)
    multiples = _legal_multiples(rollout, lcm(given, factor))
    if not multiples:  # M or K cannot be kept: no multiple of it is small enough
        multiples, factor = _legal_multiples(rollout, given), 0
    requested = f"rollout_size {rollout:,}"
    if request.rollout_size is None:
        requested = f"minibatch_size × num_minibatches = {rollout:,}"
    if request.on_remainder != "fix":
        raise RequestError(
            "rollout-split",
            f"{requested} is not a multiple of {given_name} {given:,}: {rest:,} would be left over.",
            "Nearest valid rollout sizes: " + ", ".join(f"{size:,}" for size in multiples) + ".",
            [
                consistent_alternative(
                    request,
                    {given_name: given, wanted_name: size // given}
                    | ({} if factor else {"minibatch_size": automatic_minibatch(size).size}),
                )
                for size in multiples
            ],
        )
    nearest = min(multiples, key=lambda size: abs(size - rollout))
    pair[wanted_name] = nearest // given
    note = f"{requested} → {nearest:,}, a multiple of {given_name} {given:,}"
    return Shape(pair["num_envs"], pair["num_steps"], repaired=note)


def _legal_multiples(rollout: int, step: int) -> tuple[int, ...]:
    return tuple(size for size in surrounding_multiples(rollout, step) if size <= MOST_SAMPLES)


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
        return Shape(_choose_size(max(LEAST_NUM_ENVS, target // t), t, factor), t, chosen=("num_envs",))
    chosen: tuple[str, ...] = ("num_steps",)
    if n is None:
        n, chosen = DEFAULT_NUM_ENVS, ("num_envs", "num_steps")
    power = 1 << max(0, (target // n) - 1).bit_length()
    return Shape(n, _choose_size(max(LEAST_NUM_STEPS, power), n, factor), chosen=chosen)


def _choose_size(wanted: int, given: int, factor: int) -> int:
    """Return the wanted N (or T), rounded so that N·T is a multiple of the factor and, if possible, not too large."""
    step = cofactor(factor, given)
    most = MOST_SAMPLES // given // step * step
    return max(step, min(-(-wanted // step) * step, most))


def check_size(num_envs: int, num_steps: int) -> None:
    """Raise a RequestError if N·T is too large; its alternative keeps N, or T if N alone is too large."""
    if num_envs * num_steps <= MOST_SAMPLES:
        return
    if num_envs <= MOST_SAMPLES:
        n, t = num_envs, MOST_SAMPLES // num_envs
        fix = f"With {n:,} environments use at most {t:,} steps."
    else:
        t = min(num_steps, MOST_SAMPLES)
        n = MOST_SAMPLES // t
        fix = f"With {t:,} steps use at most {n:,} environments."
    raise RequestError(
        "whole-number",
        f"A rollout of {num_envs:,} × {num_steps:,} = {num_envs * num_steps:,} samples exceeds the maximum of "
        f"{MOST_SAMPLES:,}.",
        fix,
        [{"num_envs": n, "num_steps": t}],
    )
