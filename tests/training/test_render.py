"""A film shows the episode that a score is made of."""

import sys
from pathlib import Path

import jax
import pytest
from PIL import Image, ImageSequence

from rollshape.agents.normalizer import compute_moments, merge_moments
from rollshape.errors import RequestError, RunError
from rollshape.training.driver import Driver, RunState
from rollshape.training.render import play_episode, render_episode
from rollshape.training.setup import new_driver, plan_run
from rollshape.training.spec import Spec
from rollshape.training.streams import stream_key


def untrained(name: str) -> tuple[Driver, RunState]:
    spec = Spec(env=name, num_envs=4, num_steps=8, hidden_sizes=(8,), normalize_observations=True)
    driver = new_driver(spec, plan_run(spec))
    state = driver.start()
    moments = state.normalizer.observations
    assert moments is not None
    seen = 1 + 3 * jax.random.normal(jax.random.key(0), (16, *driver.env.observation.shape))
    return driver, state._replace(
        normalizer=state.normalizer._replace(
            observations=merge_moments(moments, compute_moments(lambda x: x, seen, (0,)))
        )
    )


@pytest.fixture(scope="module")
def cart() -> tuple[Driver, RunState]:
    return untrained("CartPole-v1")


@pytest.mark.parametrize("env", ["CartPole-v1", "FrozenLake-v1", "Pendulum-v1"])
def test_the_episode_is_the_one_that_is_scored(env: str) -> None:
    driver, state = untrained(env)
    steps = list(play_episode(driver.env, driver.policy(state), stream_key(3, "eval", 0)))
    score = driver.score(state, 3, episodes=1)
    assert len(steps) - 1 == score.length
    assert sum(step.reward for step in steps) == pytest.approx(score.mean, rel=1e-4)


@pytest.mark.parametrize("suffix", [".gif", ".webp", ".GIF"])
def test_a_film_lasts_as_long_as_the_episode(suffix: str, cart: tuple[Driver, RunState], tmp_path: Path) -> None:
    path = tmp_path / f"film{suffix}"
    made = render_episode(*cart, 0, path)
    assert made.file == str(path)
    assert made.episodic_return == made.episodic_length > 5
    with Image.open(path) as image:
        milliseconds = [frame.info["duration"] for frame in ImageSequence.Iterator(image) if frame.load()]
    assert sum(milliseconds) == 20 * (made.episodic_length + 1)  # frames that are alike may have become one
    assert len(milliseconds) > 5
    assert list(tmp_path.iterdir()) == [path]


def test_a_bad_file_is_a_request_error(cart: tuple[Driver, RunState], tmp_path: Path) -> None:
    for name, message in (
        ("film.mp4", "name of an animation"),
        ("film", "name of an animation"),
        ("no/film.gif", "no folder"),
    ):
        with pytest.raises(RequestError, match=message):
            render_episode(*cart, 0, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_no_half_of_a_film(
    cart: tuple[Driver, RunState], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunError) as caught:
        render_episode(*cart, 0, tmp_path / "film.gif")
    assert caught.value.fix == "Free some space, then render it again."
    assert list(tmp_path.iterdir()) == []


def test_without_pillow_the_extra_is_named(
    cart: tuple[Driver, RunState], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(RequestError) as caught:
        render_episode(*cart, 0, tmp_path / "film.gif")
    assert "rollshape[render]" in caught.value.fix
