"""An episode of a trained policy as a moving picture."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import jax
import numpy as np
from jax import Array

from rollshape.agents.distributions import Policy, sample
from rollshape.agents.networks import ActorCritic
from rollshape.envs.draw import Frame, make_renderer, missing_dependency, use_headless_pygame
from rollshape.envs.functional import FunctionalEnv, State, StepResult
from rollshape.errors import RequestError
from rollshape.files import atomic_write
from rollshape.training.functional_trainer import FunctionalTrainer
from rollshape.training.host_trainer import HostTrainer
from rollshape.training.loop import RunState, Trainer, on_one_device
from rollshape.training.normaliser import Moments, normalise
from rollshape.training.streams import stream_key

HOST_FPS = 30
FORMATS = {".gif": "GIF", ".webp": "WEBP"}


class Shown(NamedTuple):
    """Where an episode stands, and the reward of the step that led there."""

    state: State
    observation: Array
    reward: float


class Film(NamedTuple):
    """The file, and what is seen in it."""

    file: str
    episodic_return: float
    episodic_length: int


def film(trainer: Trainer, state: RunState, seed: int, path: Path) -> Film:
    """Play one episode of the eval stream, the one that scoring a single episode plays, and draw it."""
    if path.suffix.lower() not in FORMATS:
        raise RequestError(
            "file", f"{path.name} is not a moving picture's name.", f"End it with {' or '.join(FORMATS)}."
        )
    if not path.parent.is_dir():
        raise RequestError("file", f"There is no folder {path.parent}.", "Make it first.")
    if isinstance(trainer, HostTrainer):
        return _film_host(trainer, state, seed, path)
    assert isinstance(trainer, FunctionalTrainer)
    artist, env, policy = make_renderer(trainer.env), trainer.env, trainer.policy
    model, moments = on_one_device(state)
    key = stream_key(seed, "eval", int(state.update))
    length, total = -1, 0.0

    def frames() -> Iterator[Frame]:
        nonlocal length, total
        for shown in play(env, policy, model, moments, key):
            length, total = length + 1, total + shown.reward
            yield artist.draw(shown.state, shown.observation)

    _write(path, frames(), artist.fps)
    return Film(str(path), total, length)


def _film_host(trainer: HostTrainer, state: RunState, seed: int, path: Path) -> Film:
    """The environment draws itself, as it does for people."""
    use_headless_pygame()
    length, total = 0, 0.0

    def frames() -> Iterator[Frame]:
        nonlocal length, total
        for env, outcome in trainer.played(state, seed, 1, render_mode="rgb_array"):
            length, total = length + 1, total + float(outcome.reward[0])
            if outcome.terminated[0] or outcome.truncated[0]:
                return
            yield env.render()

    _write(path, frames(), HOST_FPS)
    return Film(str(path), total, length)


def play(
    env: FunctionalEnv, policy: Policy, model: ActorCritic, moments: Moments | None, key: Array
) -> Iterator[Shown]:
    """The first state of an episode and those that follow, to the last; keys are split as `evaluate` splits them."""
    first, rest = jax.random.split(key)
    state, observation = jax.jit(env.reset)(jax.random.split(first, 1)[0])
    yield Shown(state, observation, 0.0)
    for step in range(env.horizon):
        outcome = _step(env, policy, model, moments, state, observation, jax.random.fold_in(rest, step))
        state, observation = outcome.state, outcome.observation
        yield Shown(state, observation, float(outcome.reward))
        if outcome.terminated:
            return


@partial(jax.jit, static_argnums=(0, 1))
def _step(
    env: FunctionalEnv,
    policy: Policy,
    model: ActorCritic,
    moments: Moments | None,
    state: State,
    observation: Array,
    key: Array,
) -> StepResult:
    act, move = jax.random.split(key)
    seen = observation if moments is None else normalise(moments, observation)
    action = env.clip_action(sample(policy, act, model(seen)[0][None])[0])
    return env.step(jax.random.split(jax.random.split(move, 1)[0])[0], state, action)


def _write(path: Path, frames: Iterator[Frame], fps: int) -> None:
    try:
        from PIL import Image
    except ImportError as error:
        raise missing_dependency(error) from None
    images = (Image.fromarray(np.ascontiguousarray(frame)) for frame in frames)
    with atomic_write(path, then="draw it again") as file:
        kind: dict[str, Any] = {"format": FORMATS[path.suffix.lower()], "duration": round(1000 / fps), "loop": 0}
        next(images).save(cast(IO[bytes], file), save_all=True, append_images=images, **kind)
