"""Splitting a rollout into minibatches: the automatic size, and what happens to a remainder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from rollshape.geometry.divisors import cofactor, is_prime, surrounding_multiples
from rollshape.geometry.values import MOST_SAMPLES

MOST_MINIBATCHES = 32
SMALLEST_AUTO_MINIBATCH = 32


@dataclass(frozen=True, slots=True)
class Choice:
    """An automatically chosen minibatch size, and the reason for it."""

    size: int
    reason: str


def target_num_minibatches(rollout_size: int) -> int:
    """Return how many minibatches the automatic rule aims for: 4 from 1024 samples, 2 from 256, else 1."""
    if rollout_size >= 1024:
        return 4
    return 2 if rollout_size >= 256 else 1


def _candidates(target: int) -> tuple[int, ...]:
    """Return numbers of minibatches to try, by their ratio to the target; ties go to fewer minibatches."""
    return tuple(sorted(range(2, MOST_MINIBATCHES + 1), key=lambda k: (max(k / target, target / k), k)))


_CANDIDATES = {target: _candidates(target) for target in (2, 4)}
_RANGES = {4: "1,024 samples or more", 2: "256 to 1,023 samples", 1: "fewer than 256 samples"}


def automatic_minibatch(rollout_size: int, unit: int = 1) -> Choice:
    """Return the automatic minibatch size: rollout/4, /2 or /1 by size, or the nearest useful divisor.

    Useful means 2 to 32 minibatches of at least 32 samples. A rollout without such a divisor (a prime, or a prime
    times a small factor) is trained as a whole. Minibatches consist of whole units: sequences, or one sample per rank.
    """
    target = target_num_minibatches(rollout_size)
    if target == 1:
        return Choice(rollout_size, f"whole rollout for {_RANGES[1]}")
    if rollout_size % (target * unit) == 0:
        return Choice(rollout_size // target, f"rollout/{target} for {_RANGES[target]}")
    divided = "the rollout" if unit == 1 else f"the {rollout_size // unit:,} units of {unit:,} samples"
    for count in _CANDIDATES[target]:
        size, rest = divmod(rollout_size, count)
        if rest == 0 and size % unit == 0 and size >= SMALLEST_AUTO_MINIBATCH:
            return Choice(size, f"rollout/{count}: {target} minibatches do not divide {divided}, {count} do")
    why = "is prime" if is_prime(rollout_size // unit) else "has no divisor that gives 2 to 32 minibatches"
    number = f"{rollout_size:,}" if unit == 1 else f"its number of units, {rollout_size // unit:,},"
    return Choice(rollout_size, f"whole rollout: {number} {why}")


def nearest_shapes(
    num_envs: int, num_steps: int, size: int, envs_step: int = 0, steps_step: int | None = 0
) -> list[dict[str, Any]]:
    """Return shapes that change N or T and make the rollout a multiple of `size`, nearest first; perhaps none.

    The steps of N and T are computed from the size unless they are given; None keeps T.
    """
    shapes = [(n, num_steps) for n in surrounding_multiples(num_envs, envs_step or cofactor(size, num_steps))]
    if steps_step is not None:
        step = steps_step or cofactor(size, num_envs)
        shapes += [(num_envs, t) for t in surrounding_multiples(num_steps, step)]
    rollout = num_envs * num_steps

    def distance(shape: tuple[int, int]) -> tuple[Fraction, bool]:
        ratio = Fraction(shape[0] * shape[1], rollout)
        return max(ratio, 1 / ratio), shape[1] == num_steps  # at equal distance, change the steps

    legal = {(n, t) for n, t in shapes if n * t <= MOST_SAMPLES}
    return [{"num_envs": n, "num_steps": t} for n, t in sorted(legal, key=distance)]


class Remainder(StrEnum):
    """What happens to the samples that do not fill a minibatch."""

    REFUSE = "refuse"  # an exception before training
    DROP = "drop"  # omitted from the epoch
    SHORT = "short"  # a smaller last minibatch
    MERGE = "merge"  # added to the last full minibatch
    WRAP = "wrap"  # the last minibatch is filled with samples of the next epoch
    BALANCE = "balance"  # the first minibatches are one sample larger


@dataclass(frozen=True, slots=True)
class Split:
    """One epoch over a rollout: `num_minibatches` gradient steps.

    All have `minibatch_size` samples, except the last one, and the first `larger` ones, which have `larger_by` more.
    """

    rollout_size: int
    minibatch_size: int
    num_minibatches: int
    last_minibatch_size: int
    dropped: int = 0
    larger: int = 0
    larger_by: int = 1

    def scaled(self, unit: int) -> Split:
        """Return the split of samples from a split of units (sequences, or one sample on each rank)."""
        if unit == 1:
            return self
        size, last = self.minibatch_size * unit, self.last_minibatch_size * unit
        return Split(self.rollout_size * unit, size, self.num_minibatches, last, self.dropped * unit, self.larger, unit)

    def sizes(self) -> list[int]:
        """Return the size of each minibatch, in order."""
        equal = [self.minibatch_size] * (self.num_minibatches - 1) + [self.last_minibatch_size]
        return [size + self.larger_by * (i < self.larger) for i, size in enumerate(equal)]

    def bounds(self) -> Iterator[tuple[int, int]]:
        """Yield the half-open index range of each minibatch in the epoch's permutation of the rollout."""
        start = 0
        for size in self.sizes():
            yield start, start + size
            start += size


def split(rollout_size: int, minibatch_size: int, remainder: Remainder = Remainder.REFUSE) -> Split:
    """Split a rollout into minibatches of a given size; by default a remainder is refused."""
    if minibatch_size >= rollout_size and remainder is not Remainder.REFUSE:
        return Split(rollout_size, rollout_size, 1, rollout_size)
    full, rest = divmod(rollout_size, minibatch_size)
    if rest == 0:
        return Split(rollout_size, minibatch_size, full, minibatch_size)
    match remainder:
        case Remainder.DROP:
            return Split(rollout_size, minibatch_size, full, minibatch_size, dropped=rest)
        case Remainder.SHORT:
            return Split(rollout_size, minibatch_size, full + 1, rest)
        case Remainder.MERGE:
            return Split(rollout_size, minibatch_size, full, minibatch_size + rest)
        case Remainder.WRAP:
            return Split(rollout_size, minibatch_size, full + 1, minibatch_size)
    raise ValueError(f"{rollout_size} samples do not split into minibatches of {minibatch_size}")


def split_by_count(rollout_size: int, num_minibatches: int, remainder: Remainder = Remainder.REFUSE) -> Split:
    """Split a rollout into K minibatches of floor(rollout/K); a SHORT remainder adds one more minibatch."""
    size = rollout_size // num_minibatches
    if remainder is Remainder.DROP:
        return Split(rollout_size, size, num_minibatches, size, dropped=rollout_size - num_minibatches * size)
    if remainder is Remainder.BALANCE:
        return Split(rollout_size, size, num_minibatches, size, larger=rollout_size - num_minibatches * size)
    return split(rollout_size, size, remainder)


def minibatch_at(rollout_size: int, minibatch_size: int | str, num_minibatches: int | None) -> float:
    """Return the minibatch size that a request has at another rollout size; it need not divide there."""
    if not isinstance(minibatch_size, str):
        return minibatch_size
    return automatic_minibatch(rollout_size).size if num_minibatches is None else rollout_size / num_minibatches
