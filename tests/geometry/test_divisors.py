from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from rollshape.geometry.divisors import (
    cofactor,
    divisors,
    factorize,
    is_prime,
    largest_divisor,
    nearest_divisor,
    nearest_quotient,
    surrounding_divisors,
    surrounding_multiples,
)

sizes = st.integers(1, 5_000)


@given(sizes)
def test_divisors_are_exactly_the_numbers_that_divide(n: int) -> None:
    assert list(divisors(n)) == [d for d in range(1, n + 1) if n % d == 0]


@given(sizes)
def test_factors_multiply_to_the_number_and_are_prime(n: int) -> None:
    product = 1
    for p, exponent in factorize(n):
        assert is_prime(p)
        product *= p**exponent
    assert product == n


@given(sizes, st.floats(0.5, 10_000))
def test_nearest_divisor_has_the_smallest_ratio(n: int, target: float) -> None:
    def ratio(d: int) -> float:
        return max(d / target, target / d)

    assert ratio(nearest_divisor(n, target)) == min(ratio(d) for d in divisors(n))


def test_nearest_divisor_goes_up_at_a_tie() -> None:
    assert nearest_divisor(4, 2**0.5) == 2  # 1 and 2 are equally far; 2 splits less


def test_surroundings() -> None:
    assert surrounding_divisors(1025, 256) == (205, 1025)
    assert surrounding_divisors(12, 4) == (4,)
    assert surrounding_multiples(100, 48) == (96, 144)
    assert surrounding_multiples(5, 8) == (8,)  # zero is no size


@given(sizes, sizes)
def test_cofactor_is_the_smallest_completion(multiple: int, given_size: int) -> None:
    c = cofactor(multiple, given_size)
    assert given_size * c % multiple == 0
    assert all(given_size * smaller % multiple for smaller in range(1, min(c, 200)))


def test_a_large_prime_is_found_out_quickly() -> None:
    assert is_prime(1_099_511_627_689)  # just below 2⁴⁰, the largest rollout


def test_nearest_is_exact_beyond_floats() -> None:
    assert nearest_divisor(2**40, 2**39 + 1) == 2**39
    assert nearest_divisor(36, 6) == 6
    assert nearest_divisor(8, Fraction(17, 3)) == 8  # 4·8 < (17/3)², so 8 is nearer
    assert nearest_divisor(32, Fraction(45, 8)) == 4  # 4·8 > (45/8)²


@given(st.integers(1, 5_000), st.integers(1, 6_000))
def test_nearest_divisor_is_the_nearest(n: int, target: int) -> None:
    every = [d for d in range(1, n + 1) if n % d == 0]
    assert nearest_divisor(n, target) == min(every, key=lambda d: (max(Fraction(d, target), Fraction(target, d)), -d))
    assert largest_divisor(n, target) == max(d for d in every if d <= target)


@given(st.integers(1, 2**90), st.integers(1, 2**50))
def test_nearest_quotient(total: int, parts: int) -> None:
    quotient = nearest_quotient(total, parts)
    assert quotient >= 1
    assert quotient == 1 or abs(quotient * parts - total) * 2 <= parts
