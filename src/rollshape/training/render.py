"""Rendering an episode of a trained policy as an animation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import jax
import numpy as np
from jax import Array

from rollshape.agents.policy import Policy
from rollshape.envs.draw import Frame, make_renderer, missing_dependency, use_headless_pygame
from rollshape.envs.functional import FunctionalEnv, State, StepResult
from rollshape.errors import RequestError
from rollshape.files import atomic_write
from rollshape.training.compiled_driver import CompiledDriver
from rollshape.training.driver import Driver, RunState
from rollshape.training.host_driver import HostDriver
from rollshape.training.streams import stream_key

HOST_FPS = 30
FORMATS = {".gif": "GIF", ".webp": "WEBP"}


class EpisodeStep(NamedTuple):
    """Where an episode is, and the reward of the step that led there."""

    state: State
    observation: Array
    reward: float


class RenderedEpisode(NamedTuple):
    """The file, and the episode it shows."""

    file: str
    episodic_return: float
    episodic_length: int


def render_episode(driver: Driver, state: RunState, seed: int, path: Path) -> RenderedEpisode:
    """Play one episode of the eval stream, the one that scoring a single episode plays, and write it as animation."""
    if path.suffix.lower() not in FORMATS:
        raise RequestError(
            "file",
            f"{path.name} is not the name of an animation.",
            f"Use a name that ends with {' or '.join(FORMATS)}.",
        )
    if not path.parent.is_dir():
        raise RequestError("file", f"There is no folder {path.parent}.", "Create it first.")
    if isinstance(driver, HostDriver):
        return _render_host(driver, state, seed, path)
    assert isinstance(driver, CompiledDriver)
    artist, policy = make_renderer(driver.env), driver.policy(state)
    key = stream_key(seed, "eval", int(state.update))
    length, total = -1, 0.0

    def frames() -> Iterator[Frame]:
        nonlocal length, total
        for step in play_episode(driver.env, policy, key):
            length, total = length + 1, total + step.reward
            yield artist.draw(step.state, step.observation)

    _write(path, frames(), artist.fps)
    return RenderedEpisode(str(path), total, length)


def _render_host(driver: HostDriver, state: RunState, seed: int, path: Path) -> RenderedEpisode:
    """The environment renders itself."""
    use_headless_pygame()
    length, total = 0, 0.0

    def frames() -> Iterator[Frame]:
        nonlocal length, total
        with closing(driver.new_pool(1, render_mode="rgb_array")) as env:
            for outcome in driver.play(env, state, seed):
                length, total = length + 1, total + float(outcome.reward[0])
                if outcome.terminated[0] or outcome.truncated[0]:
                    return
                yield env.render()

    _write(path, frames(), HOST_FPS)
    return RenderedEpisode(str(path), total, length)


def play_episode(env: FunctionalEnv, policy: Policy, key: Array) -> Iterator[EpisodeStep]:
    """Yield an episode's first state and those that follow; keys are split as `evaluate` splits them."""
    first, rest = jax.random.split(key)
    state, observation = jax.jit(env.reset)(jax.random.split(first, 1)[0])
    yield EpisodeStep(state, observation, 0.0)
    for step in range(env.horizon):
        outcome = _step(env, policy, state, observation, jax.random.fold_in(rest, step))
        state, observation = outcome.state, outcome.observation
        yield EpisodeStep(state, observation, float(outcome.reward))
        if outcome.terminated:
            return


@partial(jax.jit, static_argnums=0)
def _step(env: FunctionalEnv, policy: Policy, state: State, observation: Array, key: Array) -> StepResult:
    act, move = jax.random.split(key)
    action = env.clip_action(policy.sample(act, observation[None])[0])
    return env.step(jax.random.split(jax.random.split(move, 1)[0])[0], state, action)


def _write(path: Path, frames: Iterator[Frame], fps: int) -> None:
    try:
        from PIL import Image
    except ImportError as error:
        raise missing_dependency(error) from None
    images = (Image.fromarray(np.ascontiguousarray(frame)) for frame in frames)
    with atomic_write(path, then="render it again") as file:
        kind: dict[str, Any] = {"format": FORMATS[path.suffix.lower()], "duration": round(1000 / fps), "loop": 0}
        next(images).save(cast(IO[bytes], file), save_all=True, append_images=images, **kind)
