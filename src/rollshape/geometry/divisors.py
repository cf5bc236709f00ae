"""Divisors: which sizes cut a rollout without a remainder."""

from __future__ import annotations

from functools import lru_cache
from math import gcd


@lru_cache(maxsize=4096)
def factorize(n: int) -> tuple[tuple[int, int], ...]:
    """Prime factors of n ≥ 1 as ((p, exponent), …), p ascending, by trial division."""
    factors = []
    p = 2
    while p * p <= n:
        exponent = 0
        while n % p == 0:
            n //= p
            exponent += 1
        if exponent:
            factors.append((p, exponent))
        p += 1 if p == 2 else 2
    if n > 1:
        factors.append((n, 1))
    return tuple(factors)


def is_prime(n: int) -> bool:
    return n > 1 and factorize(n) == ((n, 1),)


@lru_cache(maxsize=4096)
def divisors(n: int) -> tuple[int, ...]:
    """All divisors of n ≥ 1, ascending."""
    found = [1]
    for p, exponent in factorize(n):
        found = [d * p**e for d in found for e in range(exponent + 1)]
    return tuple(sorted(found))


def nearest_divisor(n: int, target: float) -> int:
    """The divisor d of n with the smallest ratio to the target, max(d/target, target/d); ties go up."""
    return min(divisors(n), key=lambda d: (max(d / target, target / d), -d))


def surrounding_divisors(n: int, target: float) -> tuple[int, ...]:
    """The largest divisor ≤ target and the smallest ≥ target (one or two values, ascending)."""
    below = [d for d in divisors(n) if d <= target]
    above = [d for d in divisors(n) if d >= target]
    return tuple(sorted({*below[-1:], *above[:1]}))


def surrounding_multiples(n: int, step: int) -> tuple[int, ...]:
    """The nearest multiples of step around n, none of them zero (one or two values, ascending)."""
    below = n // step * step
    return tuple(m for m in sorted({below, -(-n // step) * step}) if m > 0)


def cofactor(multiple_of: int, given: int) -> int:
    """The smallest c ≥ 1 with multiple_of | given·c."""
    return multiple_of // gcd(multiple_of, given)
