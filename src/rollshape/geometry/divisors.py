"""Divisors and multiples: which sizes split a rollout without a remainder."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import gcd


@lru_cache(maxsize=4096)
def factorize(n: int) -> tuple[tuple[int, int], ...]:
    """Return the prime factors of n ≥ 1 as ((p, exponent), …), p ascending, by trial division."""
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
    """Return whether n is prime."""
    return n > 1 and factorize(n) == ((n, 1),)


@lru_cache(maxsize=4096)
def divisors(n: int) -> tuple[int, ...]:
    """Return all divisors of n ≥ 1, ascending."""
    products = [1]
    for p, exponent in factorize(n):
        products = [d * p**e for d in products for e in range(exponent + 1)]
    return tuple(sorted(products))


def nearest_divisor(n: int, target: int | Fraction) -> int:
    """Return the divisor d of n with the smallest max(d/target, target/d); ties go to the larger one."""
    below, *above = surrounding_divisors(n, target)
    return above[0] if above and below * above[0] <= target**2 else below


def surrounding_divisors(n: int, target: int | Fraction) -> tuple[int, ...]:
    """Return the largest divisor ≤ target and the smallest ≥ target (one or two values, ascending)."""
    below = [d for d in divisors(n) if d <= target]
    above = [d for d in divisors(n) if d >= target]
    return tuple(sorted({*below[-1:], *above[:1]}))


def largest_divisor(n: int, most: int) -> int:
    """Return the largest divisor of n that is at most `most`, in `most` steps: n may be too large to factorize."""
    return next(d for d in range(min(n, most), 0, -1) if n % d == 0)


def nearest_quotient(total: int, parts: int) -> int:
    """Return total/parts rounded to the nearest integer of at least 1, exactly for integers of any size."""
    return max(1, (2 * total + parts) // (2 * parts))


def surrounding_multiples(n: int, step: int) -> tuple[int, ...]:
    """Return the nearest positive multiples of step below and above n (one or two values, ascending)."""
    below = n // step * step
    return tuple(m for m in sorted({below, -(-n // step) * step}) if m > 0)


def cofactor(multiple_of: int, given: int) -> int:
    """Return the smallest c ≥ 1 such that given·c is a multiple of multiple_of."""
    return multiple_of // gcd(multiple_of, given)
