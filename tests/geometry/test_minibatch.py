import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollshape.geometry.minibatch import Remainder, automatic_minibatch, nearest_shapes, split, split_by_count


@pytest.mark.parametrize(
    ("num_envs", "minibatch"), [(2048, 8192), (1024, 4096), (256, 1024), (16, 128), (4, 64), (512, 2048), (64, 256)]
)
def test_the_rule_at_sixteen_steps(num_envs: int, minibatch: int) -> None:
    choice = automatic_minibatch(num_envs * 16)
    assert choice.size == minibatch
    assert "rollout" in choice.reason


@pytest.mark.parametrize(
    ("rollout", "minibatch"),
    [
        (1025, 205),  # 5²·41; halving would end at 1
        (1030, 206),  # 2·5·103; halving would end at 2
        (1037, 61),  # 17·61: 17 minibatches are better than one
        (625, 125),  # 5⁴: five minibatches, for halves and thirds do not divide
        (2062, 1031),  # twice a prime: two minibatches
        (1031, 1031),  # a prime: the whole rollout
        (255, 255),
        (1, 1),
    ],
)
def test_the_nearest_good_divisor(rollout: int, minibatch: int) -> None:
    assert automatic_minibatch(rollout).size == minibatch


def test_a_prime_is_said_to_be_one() -> None:
    assert "1,031 is prime" in automatic_minibatch(1031).reason


@given(st.integers(1, 200_000))
def test_the_automatic_minibatch_always_divides(rollout: int) -> None:
    choice = automatic_minibatch(rollout)
    count, rest = divmod(rollout, choice.size)
    assert rest == 0
    assert count == 1 or (2 <= count <= 32 and choice.size >= 32)


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 2_000))
def test_offered_shapes_divide_and_change_one_lever(n: int, t: int, size: int) -> None:
    shapes = nearest_shapes(n, t, size)
    assert shapes
    for shape in shapes:
        assert shape["num_envs"] * shape["num_steps"] % size == 0
        assert shape["num_envs"] == n or shape["num_steps"] == t


treatments = st.sampled_from([Remainder.DROP, Remainder.SHORT, Remainder.MERGE])


@given(st.integers(1, 500), st.integers(1, 600), treatments)
def test_minibatches_of_a_size_use_each_sample_once(rollout: int, size: int, remainder: Remainder) -> None:
    cut = split(rollout, size, remainder)
    permutation = random.Random(0).sample(range(rollout), rollout)
    used = [i for start, stop in cut.bounds() for i in permutation[start:stop]]
    assert len(used) == len(set(used)) == rollout - cut.dropped
    assert cut.dropped == 0 or remainder is Remainder.DROP
    assert len(cut.sizes()) == cut.num_minibatches
    assert 0 not in cut.sizes()


@given(st.integers(1, 500), st.data(), st.sampled_from([Remainder.DROP, Remainder.SHORT, Remainder.BALANCE]))
def test_minibatches_of_a_number_use_each_sample_once(rollout: int, data: st.DataObject, remainder: Remainder) -> None:
    cut = split_by_count(rollout, data.draw(st.integers(1, rollout)), remainder)
    assert sum(cut.sizes()) == rollout - cut.dropped
    assert max(cut.sizes()) - min(cut.sizes()[:-1] or cut.sizes()) <= 1


def test_what_each_treatment_makes_of_ten_by_four() -> None:
    assert split(10, 4, Remainder.DROP).sizes() == [4, 4]
    assert split(10, 4, Remainder.SHORT).sizes() == [4, 4, 2]
    assert split(10, 4, Remainder.MERGE).sizes() == [4, 6]
    assert split_by_count(10, 4, Remainder.BALANCE).sizes() == [3, 3, 2, 2]
    assert split_by_count(10, 6, Remainder.SHORT).sizes() == [1] * 10  # CleanRL: ten, not six and a rest
    with pytest.raises(ValueError):
        split(10, 4)
