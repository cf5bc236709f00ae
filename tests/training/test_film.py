"""A film shows the episode that a score is made of."""

import sys
from pathlib import Path

import jax
import pytest
from PIL import Image, ImageSequence

from rollshape.agents.normalizer import compute_moments, merge_moments
from rollshape.errors import RequestError, RunError
from rollshape.training.film import film, play
from rollshape.training.loop import RunState, Trainer
from rollshape.training.run import planned, trainer_for
from rollshape.training.spec import Spec
from rollshape.training.streams import stream_key


def untrained(name: str) -> tuple[Trainer, RunState]:
    spec = Spec(env=name, num_envs=4, num_steps=8, hidden_sizes=(8,), normalize_observations=True)
    trainer = trainer_for(spec, planned(spec))
    state = trainer.start()
    assert state.observations is not None
    seen = 1 + 3 * jax.random.normal(jax.random.key(0), (16, *trainer.env.observation.shape))
    return trainer, state._replace(
        observations=merge_moments(state.observations, compute_moments(lambda x: x, seen, (0,)))
    )


@pytest.fixture(scope="module")
def cart() -> tuple[Trainer, RunState]:
    return untrained("CartPole-v1")


@pytest.mark.parametrize("env", ["CartPole-v1", "FrozenLake-v1", "Pendulum-v1"])
def test_the_episode_is_the_one_that_is_scored(env: str) -> None:
    trainer, state = untrained(env)
    steps = list(play(trainer.env, trainer.policy, state.learner.model, state.observations, stream_key(3, "eval", 0)))
    score = trainer.score(state, 3, episodes=1)
    assert len(steps) - 1 == score.length
    assert sum(step.reward for step in steps) == pytest.approx(score.mean, rel=1e-4)


@pytest.mark.parametrize("suffix", [".gif", ".webp", ".GIF"])
def test_a_film_lasts_as_long_as_the_episode(suffix: str, cart: tuple[Trainer, RunState], tmp_path: Path) -> None:
    path = tmp_path / f"film{suffix}"
    made = film(*cart, 0, path)
    assert made.file == str(path)
    assert made.episodic_return == made.episodic_length > 5
    with Image.open(path) as image:
        milliseconds = [frame.info["duration"] for frame in ImageSequence.Iterator(image) if frame.load()]
    assert sum(milliseconds) == 20 * (made.episodic_length + 1)  # frames that are alike may have become one
    assert len(milliseconds) > 5
    assert list(tmp_path.iterdir()) == [path]


def test_a_bad_file_is_a_request_error(cart: tuple[Trainer, RunState], tmp_path: Path) -> None:
    for name, message in (("film.mp4", "moving picture"), ("film", "moving picture"), ("no/film.gif", "no folder")):
        with pytest.raises(RequestError, match=message):
            film(*cart, 0, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_no_half_of_a_film(
    cart: tuple[Trainer, RunState], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunError) as caught:
        film(*cart, 0, tmp_path / "film.gif")
    assert caught.value.fix == "Free some space, then draw it again."
    assert list(tmp_path.iterdir()) == []


def test_without_pillow_the_extra_is_named(
    cart: tuple[Trainer, RunState], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(RequestError) as caught:
        film(*cart, 0, tmp_path / "film.gif")
    assert "rollshape[render]" in caught.value.fix
