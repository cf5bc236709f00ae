"""Gymnasium's spaces in our words; batches agree with Gymnasium's own flattening."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces.utils import flatten
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from rollshape.envs.gymnasium_spaces import (
    action_from_space,
    encode_observation,
    encode_observations,
    observation_from_space,
    to_env_actions,
)
from rollshape.envs.spaces import Continuous, Discrete, MultiDiscrete, Observation
from rollshape.errors import RequestError

NESTED = spaces.Dict(
    a=spaces.Box(-1, 1, (2, 3), np.float64),
    b=spaces.Tuple([spaces.Discrete(4, start=2), spaces.MultiBinary(3), spaces.MultiDiscrete([2, 5], start=[1, 0])]),
    c=spaces.Box(0, 1, ()),
    d=spaces.Text(4),
)


@pytest.mark.parametrize("space", [NESTED, spaces.Discrete(5), spaces.MultiBinary((2, 2)), NESTED["b"]])
def test_anything_of_a_fixed_size_is_laid_out_flat(space: Any) -> None:
    space.seed(0)
    samples = [space.sample() for _ in range(6)]
    batch = concatenate(space, samples, create_empty_array(space, 6))
    seen = observation_from_space(space, "X")
    expected = np.stack([flatten(space, sample) for sample in samples]).astype(np.float32)
    assert seen == Observation(expected.shape[1:])
    for result in (
        encode_observations(space, seen, batch),
        np.stack([encode_observation(space, seen, sample) for sample in samples]),
    ):
        assert result.dtype == np.float32
        assert (result == expected).all()


def test_boxes_keep_their_shape_and_pictures_their_bytes() -> None:
    picture = spaces.Box(0, 255, (8, 6, 3), np.uint8)
    assert observation_from_space(picture, "X") == Observation((8, 6, 3), "uint8")
    batch = np.zeros((2, 8, 6, 3), np.uint8)
    assert np.shares_memory(encode_observations(picture, observation_from_space(picture, "X"), batch), batch)
    vector = spaces.Box(-np.inf, np.inf, (3,), np.float64)
    assert observation_from_space(vector, "X") == Observation((3,))
    assert np.isinf(encode_observations(vector, Observation((3,)), np.full((1, 3), 1e300))).all()
    assert observation_from_space(spaces.Box(0, 1, ()), "X").shape == (1,)
    assert encode_observations(spaces.Box(0, 1, ()), Observation((1,)), np.zeros(4)).shape == (4, 1)
    with pytest.raises(ValueError, match="shape"):
        encode_observations(vector, Observation((3,)), np.zeros((2, 4)))


@pytest.mark.parametrize(
    ("space", "expected", "action", "taken"),
    [
        (spaces.Discrete(3, start=5), Discrete(3), [0, 2], [5, 7]),
        (spaces.MultiDiscrete([2, 4], start=[1, -1]), MultiDiscrete((2, 4)), [[0, 0], [1, 3]], [[1, -1], [2, 2]]),
        (spaces.MultiBinary(2), MultiDiscrete((2, 2)), [[0, 1], [1, 1]], [[0, 1], [1, 1]]),
        (spaces.Box(np.array([-1, 0]), np.array([1, 2]), dtype=np.float64), Continuous(2, -1, 2),
         [[-9, -9], [9, 9]], [[-1, 0], [1, 2]]),
        (spaces.Box(-np.inf, np.inf, (2, 1)), Continuous(2), [[-9, 9], [0, 1]], [[[-9], [9]], [[0], [1]]]),
    ],
)  # fmt: skip
def test_actions(space: Any, expected: Any, action: Any, taken: Any) -> None:
    assert action_from_space(space, "X") == expected
    result = to_env_actions(space, np.asarray(action, np.float32 if isinstance(expected, Continuous) else np.int32))
    assert result.tolist() == taken
    assert result in batch_space(space, 2)


def test_what_is_not_supported_names_the_environment() -> None:
    for space in (spaces.Dict(a=spaces.Discrete(2)), spaces.Box(0, 9, (2,), np.int64)):
        with pytest.raises(RequestError, match="action space of Mine"):
            action_from_space(space, "Mine")
    with pytest.raises(RequestError, match="observation space of Mine has no fixed size: Sequence"):
        observation_from_space(spaces.Sequence(spaces.Discrete(2)), "Mine")
