"""Pictures show the state: where the agent is, and that it moves."""

import sys

import jax
import numpy as np
import pytest

from rollshape.envs.draw import AGENT, GOAL, HOLE, PALETTE, draw_observation, make_renderer
from rollshape.envs.registry import CLASSIC, make
from rollshape.errors import RequestError


@pytest.mark.parametrize("name", CLASSIC)
def test_classic_control_is_drawn_from_our_state(name: str) -> None:
    env = make(name)
    artist = make_renderer(env)
    state, observation = env.reset(jax.random.key(0))
    frame = artist.draw(state, observation)
    assert frame.dtype == np.uint8
    assert frame.shape[2] == 3
    assert artist.fps > 0
    np.testing.assert_array_equal(artist.draw(state, observation), frame)  # drawing changes nothing
    assert (artist.draw(state + 0.3, observation) != frame).any()


def test_a_cart_is_drawn_where_it_is() -> None:
    artist = make_renderer(make("CartPole-v1"))
    left, right = (artist.draw(np.array([x, 0, 0, 0]), None).min(-1) < 50 for x in (-1.2, 1.2))
    assert np.nonzero(left[:340])[1].mean() < 200 < 400 < np.nonzero(right[:340])[1].mean()  # of 600 pixels


def test_a_lake() -> None:
    env = make("FrozenLake-v1")
    artist = make_renderer(env)

    def middle(frame: np.ndarray, cell: int) -> tuple[int, ...]:
        side = len(frame) // 4
        return tuple(int(x) for x in frame[cell // 4 * side + side // 2, cell % 4 * side + side // 2])

    frame = artist.draw(np.array(6), None)
    assert middle(frame, 6) == AGENT
    assert [cell for cell in range(16) if middle(frame, cell) == HOLE] == [5, 7, 11, 12]
    assert middle(frame, 15) == GOAL


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_a_picture_has_a_color_for_each_channel(dtype: type) -> None:
    seen = np.zeros((10, 10, 4), dtype)
    full = 255 if dtype == np.uint8 else 1
    seen[2, 3, 1] = seen[5, 5, 0] = seen[5, 5, 3] = full
    frame = draw_observation(seen)
    assert frame.shape == (320, 320, 3)
    np.testing.assert_array_equal(frame[2 * 32, 3 * 32], PALETTE[1])
    np.testing.assert_array_equal(frame[6 * 32 - 1, 6 * 32 - 1], PALETTE[3])


def test_minatar_is_drawn_from_its_observation() -> None:
    env = make("gymnax:Breakout-MinAtar")
    state, observation = env.reset(jax.random.key(0))
    np.testing.assert_array_equal(
        make_renderer(env).draw(state, observation), draw_observation(np.asarray(observation))
    )


def test_what_cannot_be_drawn_says_so() -> None:
    with pytest.raises(RequestError, match=r"DelayChain.* cannot be rendered"):
        make_renderer(make("DelayChain-v0"))


def test_without_pygame_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(RequestError) as caught:
        make_renderer(make("CartPole-v1")).draw(np.zeros(4), None)
    assert "rollshape[render]" in caught.value.fix
