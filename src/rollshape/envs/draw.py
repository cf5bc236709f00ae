"""Rendering of functional environments: a renderer turns a state and its observation into a frame."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from rollshape.envs.functional import FunctionalEnv, State
from rollshape.envs.registry import CLASSIC
from rollshape.envs.tabular import TabularMDP
from rollshape.errors import RequestError

Frame = NDArray[np.uint8]  # [height, width, 3]
WIDTH = 320  # approximate width in pixels of frames that are drawn here
PALETTE = np.array(
    [[230, 25, 75], [60, 180, 75], [255, 225, 25], [0, 130, 200], [245, 130, 48], [145, 30, 180], [70, 240, 240]]
)
BACKGROUND, ICE, EDGE, HOLE, GOAL, AGENT = (
    (20, 20, 30), (214, 234, 248), (150, 180, 200), (30, 60, 110), (60, 180, 75), (230, 25, 75)
)  # fmt: skip


class Renderer(NamedTuple):
    """Draws frames of an environment, to be shown with `fps` frames per second."""

    draw: Callable[[State, Any], Frame]
    fps: int


def make_renderer(env: FunctionalEnv) -> Renderer:
    """Return the renderer of an environment, or raise a RequestError if it cannot be rendered."""
    if env.name in CLASSIC:
        return _gymnasium(env.name)
    if isinstance(env, TabularMDP) and env.name.startswith("FrozenLake"):
        return Renderer(lambda state, _: _draw_lake(env, int(state)), fps=4)
    if len(env.observation.shape) == 3:
        return Renderer(lambda _, observation: draw_observation(np.asarray(observation)), fps=10)
    raise RequestError(
        "environment", f"{env.name} cannot be rendered.", "Use classic control, FrozenLake or image observations."
    )


def use_headless_pygame() -> None:
    """Let pygame run without a display, and without its greeting on stdout."""
    for driver in ("SDL_VIDEODRIVER", "SDL_AUDIODRIVER"):
        os.environ.setdefault(driver, "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


def _gymnasium(name: str) -> Renderer:
    """Return a renderer that uses the Gymnasium environment of the same name, which has the same state."""
    use_headless_pygame()
    import gymnasium

    env: Any = gymnasium.make(name, render_mode="rgb_array").unwrapped
    env.reset(seed=0)

    def draw(state: State, _: Any) -> Frame:
        env.state = np.asarray(state, np.float64)
        try:
            return cast(Frame, env.render())
        except gymnasium.error.DependencyNotInstalled as error:
            raise missing_dependency(error) from None

    return Renderer(draw, env.metadata["render_fps"])


def missing_dependency(error: Exception) -> RequestError:
    """Return the error for a missing rendering library."""
    return RequestError("environment", f"Rendering is not possible: {error}.", "pip install 'rollshape[render]'.")


def _draw_lake(mdp: TabularMDP, state: int) -> Frame:
    """Draw the lake with its holes, the goal and the agent."""
    side = round(mdp.num_states**0.5)
    cell = WIDTH // side
    is_goal = mdp.rewards.max((0, 1)) > 0
    frame = np.empty((side * cell, side * cell, 3), np.uint8)
    for here in range(mdp.num_states):
        row, column = divmod(here, side)
        tile = frame[row * cell : (row + 1) * cell, column * cell : (column + 1) * cell]
        tile[:] = EDGE
        tile[1:-1, 1:-1] = GOAL if is_goal[here] else ICE
        if mdp.terminal[here] and not is_goal[here]:
            _draw_disc(tile, 0.4, HOLE)
        if here == state:
            _draw_disc(tile, 0.25, AGENT)
    return frame


def _draw_disc(tile: Frame, radius: float, color: tuple[int, int, int]) -> None:
    """Draw a disc in the center of a square tile; the radius is relative to its width."""
    across = (np.arange(len(tile)) + 0.5) / len(tile) - 0.5
    tile[across[:, None] ** 2 + across[None, :] ** 2 <= radius**2] = color


def draw_observation(observation: NDArray[Any]) -> Frame:
    """Draw an image observation [height, width, channels], enlarged, each channel in another color."""
    strength = observation / 255 if observation.dtype == np.uint8 else np.clip(observation.astype(float), 0, 1)
    frame = np.broadcast_to(np.array(BACKGROUND, float), (*observation.shape[:2], 3))
    for channel in range(observation.shape[2]):
        share = strength[:, :, channel, None]
        frame = (1 - share) * frame + share * PALETTE[channel % len(PALETTE)]
    zoom = max(1, WIDTH // observation.shape[1])
    return frame.round().astype(np.uint8).repeat(zoom, 0).repeat(zoom, 1)
