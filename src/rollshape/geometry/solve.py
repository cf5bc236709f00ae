"""Solving for N and T: any subset of N, T, N·T, M and K determines them, or contradicts itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.divisors import nearest_divisor, surrounding_multiples
from rollshape.geometry.grain import Grain, check_grain, legal_minibatch, nearest_multiple
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
    num_agents: int = 1

    @property
    def rollout_size(self) -> int:
        return self.num_envs * self.num_steps * self.num_agents

    def __str__(self) -> str:
        agents = f" × {self.num_agents:,} agents" if self.num_agents > 1 else ""
        return f"{self.num_envs:,} × {self.num_steps:,}{agents} = {self.rollout_size:,}"


def solve_shape(request: Request) -> Shape:
    """Return N and T of the request; free sizes are chosen so that M or K still divides the rollout."""
    grain, n, t = Grain.of(request), request.num_envs, request.num_steps
    check_grain(request)
    if n and t:
        check_size(n * grain.agents, t)
    rollout = _rollout_size(request)
    if n and t:
        shape = Shape(n, t, num_agents=grain.agents)
        if rollout and shape.rollout_size != rollout:
            raise _contradiction(
                f"num_envs × num_steps = {shape}, but rollout_size = {rollout:,}.",
                "Leave one of the three out.",
                [consistent_alternative(request, {"num_envs": n, "num_steps": t})],
            )
        return shape
    if rollout and n:
        return _divide(request, rollout, n, "num_envs", "num_steps")
    if rollout and t:
        return _divide(request, rollout, t, "num_steps", "num_envs")
    if rollout:
        return _divide_freely(request, rollout)
    shape = replace(_choose(request, n, t), num_agents=grain.agents)
    check_size(shape.num_envs * grain.agents, shape.num_steps)
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
    samples = rollout or (request.num_envs or 0) * (request.num_steps or 0) * request.num_agents
    if m * k != samples:
        unit = Grain.of(request).minibatch_unit(request.num_steps or 1)
        size = legal_minibatch(samples, unit, m) if samples % unit == 0 else nearest_divisor(samples, m)
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
    grain = Grain.of(request)
    step = grain.agents * (grain.steps if wanted_name == "num_steps" else grain.envs)
    quotient, rest = divmod(rollout, given * step)
    pair = {given_name: given, wanted_name: quotient * step // grain.agents}
    if not rest:
        return Shape(pair["num_envs"], pair["num_steps"], num_agents=grain.agents)
    factor = _required_factor(request, pair["num_steps"] if given_name == "num_steps" else None)
    multiples = _legal_multiples(rollout, lcm(given * step, factor))
    if not multiples:  # M or K cannot be kept: no multiple of it is small enough
        multiples, factor = _legal_multiples(rollout, given * step), 0
    requested = f"rollout_size {rollout:,}"
    if request.rollout_size is None:
        requested = f"minibatch_size × num_minibatches = {rollout:,}"
    if request.on_remainder != "fix":
        raise RequestError(
            "rollout-split",
            f"{requested} is not a multiple of {given_name} {_times(given, step)}: {rest:,} would be left over.",
            "Nearest valid rollout sizes: " + ", ".join(f"{size:,}" for size in multiples) + ".",
            [
                consistent_alternative(
                    request,
                    {given_name: given, wanted_name: size // given // grain.agents}
                    | ({} if factor else {"minibatch_size": automatic_minibatch(size).size}),
                )
                for size in multiples
            ],
        )
    nearest = min(multiples, key=lambda size: abs(size - rollout))
    pair[wanted_name] = nearest // given // grain.agents
    note = f"{requested} → {nearest:,}, a multiple of {given_name} {_times(given, step)}"
    return Shape(pair["num_envs"], pair["num_steps"], repaired=note, num_agents=grain.agents)


def _times(given: int, step: int) -> str:
    return f"{given:,}" if step == 1 else f"{given:,} × {step:,}"


def _divide_freely(request: Request, rollout: int) -> Shape:
    """Return the shape of N·T with both of them chosen."""
    grain = Grain.of(request)
    step = grain.agents * grain.envs * grain.steps
    note = ""
    if rollout % step:
        multiples = _legal_multiples(rollout, lcm(step, _required_factor(request)))
        if request.on_remainder != "fix":
            raise RequestError(
                "rollout-split",
                f"A rollout of {rollout:,} samples is not a multiple of {step:,} = {grain.agents:,} agents × "
                f"{grain.envs:,} processes × {grain.steps:,} steps of a sequence.",
                "Nearest valid rollout sizes: " + ", ".join(f"{size:,}" for size in multiples) + ".",
                [{"num_envs": size // _free_steps(grain, size) // grain.agents} for size in multiples],
            )
        nearest = min(multiples, key=lambda size: abs(size - rollout))
        note, rollout = f"rollout_size {rollout:,} → {nearest:,}, a multiple of {step:,}", nearest
    t = _free_steps(grain, rollout)
    n = rollout // t // grain.agents
    return Shape(n, t, chosen=("num_envs", "num_steps"), repaired=note, num_agents=grain.agents)


def _free_steps(grain: Grain, rollout: int) -> int:
    parts = rollout // (grain.agents * grain.envs * grain.steps)
    return grain.steps * nearest_divisor(parts, Fraction(DEFAULT_NUM_STEPS, grain.steps))


def _legal_multiples(rollout: int, step: int) -> tuple[int, ...]:
    return tuple(size for size in surrounding_multiples(rollout, step) if size <= MOST_SAMPLES)


def _required_factor(request: Request, num_steps: int | None = None) -> int:
    """Return the requested M or K, which must divide the rollout, in whole sequences on each rank."""
    m, grain = request.minibatch_size, Grain.of(request)
    unit = grain.minibatch_unit(num_steps or 1)
    return lcm(m, unit) if isinstance(m, int) else (request.num_minibatches or 1) * unit


def complete_alternative(request: Request, near: dict[str, Any]) -> dict[str, Any]:
    """Return the alternative with N and T, and all other requested sizes changed to the nearest valid ones."""
    grain, requested = Grain.of(request), {**vars(request), **near}
    n, t, rollout = requested["num_envs"], requested["num_steps"], requested["rollout_size"] or 0
    n = n or rollout // ((t or DEFAULT_NUM_STEPS) * grain.agents) or DEFAULT_NUM_ENVS
    n = nearest_multiple(n, grain.envs)
    t = nearest_multiple(t or rollout // (n * grain.agents) or DEFAULT_NUM_STEPS, grain.steps)
    unit, rollout = grain.minibatch_unit(t), n * t * grain.agents
    sizes = {"num_envs": n, "num_steps": t}
    m, k = requested["minibatch_size"], requested["num_minibatches"]
    if request.minibatch_size != "auto" and m != "auto":
        sizes["minibatch_size"] = legal_minibatch(rollout, unit, m)
    elif request.num_minibatches is not None and k is not None:
        sizes["num_minibatches"] = nearest_divisor(rollout // unit, k)
    return consistent_alternative(request, sizes)


def consistent_alternative(request: Request, sizes: dict[str, int]) -> dict[str, int]:
    """Return the sizes with all requested ones adjusted to them, so that they can be merged into the request."""
    rollout = sizes["num_envs"] * sizes["num_steps"] * request.num_agents
    alternative = dict(sizes)
    if request.rollout_size is not None:
        alternative["rollout_size"] = rollout
    m = sizes.get("minibatch_size", request.minibatch_size)
    if request.num_minibatches is not None and isinstance(m, int):
        alternative["num_minibatches"] = rollout // m
    return alternative


def _choose(request: Request, n: int | None, t: int | None) -> Shape:
    """Choose N or T (or both) such that the rollout is a multiple of the requested M or K."""
    m, grain, factor = request.minibatch_size, Grain.of(request), _required_factor(request, t)
    target = max(DEFAULT_ROLLOUT, 4 * m if isinstance(m, int) else 0)
    if t is not None:
        wanted, step = max(LEAST_NUM_ENVS, target // (t * grain.agents)), grain.envs_step(factor, t)
        return Shape(_round_up(wanted, step, t * grain.agents), t, chosen=("num_envs",))
    chosen: tuple[str, ...] = ("num_steps",)
    if n is None:
        least = grain.envs_step(factor, 1) if grain.whole_envs else grain.envs
        n, chosen = -(-DEFAULT_NUM_ENVS // least) * least, ("num_envs", "num_steps")
    power = 1 << max(0, (target // (n * grain.agents)) - 1).bit_length()
    step = grain.steps_step(factor, n)
    return Shape(n, _round_up(max(LEAST_NUM_STEPS, power), step, n * grain.agents), chosen=chosen)


def _round_up(wanted: int, step: int, given: int) -> int:
    """Return the wanted N (or T), rounded up to a multiple of the step; if possible, N·T is not too large."""
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
