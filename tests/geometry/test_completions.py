"""Splits of completions: what divides, and what is nearest."""

from math import log

from hypothesis import given, settings
from hypothesis import strategies as st

from rollshape.geometry.completions import BatchSplit, automatic_microbatch, is_legal, nearest_split

splits = st.builds(BatchSplit, st.integers(1, 400), st.integers(1, 400), st.integers(1, 16))


def test_what_divides() -> None:
    assert is_legal(BatchSplit(64, 32, 4), generations=8, gpus=2)
    assert not is_legal(BatchSplit(64, 32, 4), generations=6, gpus=2), "no whole groups"
    assert not is_legal(BatchSplit(64, 24, 4), generations=8, gpus=2), "minibatches do not divide the update"
    assert not is_legal(BatchSplit(64, 32, 5), generations=8, gpus=2), "micro-batches do not divide the minibatch"
    assert is_legal(BatchSplit(24, 4, 4), generations=8, gpus=1)
    assert not is_legal(BatchSplit(24, 4, 4), generations=8, gpus=1, whole_groups=True), "half a group"


@settings(max_examples=400, deadline=None)
@given(splits, st.integers(1, 16), st.integers(1, 9), st.booleans())
def test_the_nearest_split_is_legal_and_near(
    target: BatchSplit, generations: int, gpus: int, whole_groups: bool
) -> None:
    nearest = nearest_split(target, generations, gpus, whole_groups=whole_groups)
    assert is_legal(nearest, generations, gpus, whole_groups=whole_groups)
    assert nearest.microbatch_size <= target.microbatch_size
    assert nearest_split(nearest, generations, gpus, whole_groups=whole_groups) == nearest
    if is_legal(target, generations, gpus, whole_groups=whole_groups):
        assert nearest == target
    else:  # one GPU's micro-batch of one completion is always possible: N is never further away than its multiples
        step = generations * gpus
        multiples = [step * max(1, target.rollout_size // step), step * (target.rollout_size // step + 1)]
        change = min(abs(log(multiple / target.rollout_size)) for multiple in multiples)
        counted = abs(log(target.rollout_size / target.minibatch_size)) + log(target.microbatch_size) / 2
        assert abs(log(nearest.rollout_size / target.rollout_size)) <= change + counted + 1e-9


def test_numbers_of_each_parts_size() -> None:
    # 5,000 completions of 5 per prompt in minibatches of 1,280: 1,024 prompts have four of them
    assert nearest_split(BatchSplit(5000, 1280, 16), 5, 8, whole_groups=True) == BatchSplit(5120, 1280, 16)
    # three completions are no group of eight; one optimizer step stays one
    assert nearest_split(BatchSplit(3, 3, 3), 8, 1) == BatchSplit(8, 8, 2)


def test_the_micro_batch_that_nobody_asked_for() -> None:
    assert [automatic_microbatch(share) for share in (1, 6, 7, 8, 12, 13, 64)] == [1, 6, 7, 8, 6, 1, 8]
