"""Granularity of a plan: what N, T and M must be multiples of if processes, agents or sequences share a rollout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import lcm
from typing import Any, NamedTuple, TypeVar

from rollshape.errors import RequestError
from rollshape.geometry.divisors import cofactor, nearest_divisor, surrounding_divisors, surrounding_multiples
from rollshape.geometry.request import Request

Result = TypeVar("Result")


class Grain(NamedTuple):
    """N is a multiple of `envs`, T of `steps`; the rollout has N·T·`agents` samples."""

    envs: int = 1
    steps: int = 1
    agents: int = 1
    whole_envs: bool = False  # a recurrent policy without a sequence length: T is the length of a sequence

    @classmethod
    def of(cls, request: Request) -> Grain:
        """Return the granularity of a request."""
        length = request.seq_length
        if request.world_size == 1 == request.num_agents and length is None and not request.recurrent:
            return _PLAIN
        return cls(request.world_size, length or 1, request.num_agents, request.recurrent and length is None)

    def minibatch_unit(self, num_steps: int) -> int:
        """Return the samples of which M is a multiple: one sequence (or sample) on each rank."""
        return self.envs * (num_steps if self.whole_envs else self.steps)

    def envs_step(self, factor: int, num_steps: int) -> int:
        """Return the step of N with which the rollout is also a multiple of `factor`."""
        return lcm(self.envs, cofactor(factor, num_steps * self.agents))

    def steps_step(self, factor: int, num_envs: int) -> int:
        """Return the step of T with which the rollout is also a multiple of `factor`."""
        return lcm(self.steps, cofactor(factor, num_envs * self.agents))


_PLAIN = Grain()
Alternative = dict[str, Any]


def in_global_sizes(
    request: Request, make: Callable[[Request], Result], complete: Callable[[Request, Alternative], Alternative]
) -> Result:
    """Call `make` with the request in sizes of all processes.

    The alternatives of its errors are completed, because the nearest valid size of one kind may make others invalid,
    and are given in the names that were requested.
    """
    world = request.world_size
    requested = {name: getattr(request, f"{name}_per_rank") for name in ("num_envs", "minibatch_size")}
    sizes = {name: size * world for name, size in requested.items() if size is not None}
    both = [name for name in sizes if getattr(request, name) not in (None, "auto")]
    changes: dict[str, Any] = sizes | {"num_envs_per_rank": None, "minibatch_size_per_rank": None} if sizes else {}
    if request.seq_length is not None and not request.recurrent:
        changes["recurrent"] = True
    plain = replace(request, **changes) if changes else request
    try:
        _check_names(request, sizes)
        return make(plain)
    except RequestError as error:
        if error.rule not in _COMPLETED:
            raise
        whole = [complete(plain, near) for near in error.alternatives]
        error.alternatives = [_named(near, list(sizes), both, world) for near in whole]
        raise


_COMPLETED = ("contradiction", "divisibility", "recurrent", "rollout-split", "world-size")


def _check_names(request: Request, sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        other, world = getattr(request, name), request.world_size
        if other not in (None, "auto", size):
            raise RequestError(
                "contradiction",
                f"{name}_per_rank {size // world:,} × world_size {world:,} = {size:,}, but {name} = {other:,}.",
                "Leave one of them out.",
                [{name: size}],
            )


def _named(alternative: Alternative, per_rank: list[str], both: list[str], world: int) -> Alternative:
    """Return the alternative in the names that were requested: of all processes, per rank, or both."""
    named = {name: size for name, size in alternative.items() if name not in per_rank or name in both}
    return named | {f"{name}_per_rank": alternative[name] // world for name in per_rank if name in alternative}


def check_grain(request: Request) -> None:
    """Raise a RequestError with the nearest multiples if the requested N or T is not one of its granularity."""
    grain, n, t = Grain.of(request), request.num_envs, request.num_steps
    if n is not None and n % grain.envs:
        near = surrounding_multiples(n, grain.envs)
        choices = " or ".join(f"{size:,} ({size // grain.envs:,} per process)" for size in near)
        raise RequestError(
            "world-size",
            f"num_envs {n:,} cannot be divided evenly among {grain.envs:,} processes.",
            f"Use num_envs {choices}.",
            [{"num_envs": size} for size in near],
        )
    if t is not None and t % grain.steps:
        near = surrounding_multiples(t, grain.steps)
        raise RequestError(
            "recurrent",
            f"num_steps {t:,} is not a multiple of seq_length {grain.steps:,}: a sequence would be cut.",
            f"Use num_steps {_either(near)}, or seq_length {_either(surrounding_divisors(t, grain.steps))}.",
            [{"num_steps": size} for size in near],
        )


def nearest_multiple(size: int, step: int) -> int:
    """Return the positive multiple of the step that is nearest to the size."""
    return min(surrounding_multiples(size, step), key=lambda multiple: abs(multiple - size))


def legal_minibatch(rollout: int, unit: int, size: int) -> int:
    """Return the nearest minibatch size of whole units that divides the rollout."""
    return unit * nearest_divisor(rollout // unit, Fraction(size, unit))


def _either(sizes: tuple[int, ...]) -> str:
    return " or ".join(f"{size:,}" for size in sizes)
