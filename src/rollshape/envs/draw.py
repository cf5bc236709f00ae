"""Pictures of environments: an artist turns a state and its observation into a frame."""

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
WIDTH = 320  # pixels, about, of a picture that we make ourselves
PALETTE = np.array(
    [[230, 25, 75], [60, 180, 75], [255, 225, 25], [0, 130, 200], [245, 130, 48], [145, 30, 180], [70, 240, 240]]
)
BACKGROUND, ICE, EDGE, HOLE, GOAL, AGENT = (
    (20, 20, 30), (214, 234, 248), (150, 180, 200), (30, 60, 110), (60, 180, 75), (230, 25, 75)
)  # fmt: skip


class Artist(NamedTuple):
    """Draws an environment; so many frames are a second."""

    draw: Callable[[State, Any], Frame]
    fps: int


def artist_for(env: FunctionalEnv) -> Artist:
    """Who can draw this environment; a RequestError where nobody can."""
    if env.name in CLASSIC:
        return _gymnasium(env.name)
    if isinstance(env, TabularMDP) and env.name.startswith("FrozenLake"):
        return Artist(lambda state, _: _lake(env, int(state)), fps=4)
    if len(env.observation.shape) == 3:
        return Artist(lambda _, observation: picture(np.asarray(observation)), fps=10)
    raise RequestError(
        "environment", f"{env.name} cannot be drawn.", "Classic control, FrozenLake and what shows pictures can."
    )


def headless() -> None:
    """Pygame needs no screen, and does not greet on stdout."""
    for driver in ("SDL_VIDEODRIVER", "SDL_AUDIODRIVER"):
        os.environ.setdefault(driver, "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


def _gymnasium(name: str) -> Artist:
    """Gymnasium's environment of the same name, which has the same state and draws it."""
    headless()
    import gymnasium

    twin: Any = gymnasium.make(name, render_mode="rgb_array").unwrapped
    twin.reset(seed=0)

    def draw(state: State, _: Any) -> Frame:
        twin.state = np.asarray(state, np.float64)
        try:
            return cast(Frame, twin.render())
        except gymnasium.error.DependencyNotInstalled as error:
            raise missing(error) from None

    return Artist(draw, twin.metadata["render_fps"])


def missing(error: Exception) -> RequestError:
    """A drawing library is not there."""
    return RequestError("environment", f"Nothing can be drawn: {error}.", "pip install 'rollshape[render]'.")


def _lake(mdp: TabularMDP, state: int) -> Frame:
    """The lake from above: holes, the goal, and where the agent stands."""
    side = round(mdp.num_states**0.5)
    cell = WIDTH // side
    rewarded = mdp.rewards.max((0, 1)) > 0
    frame = np.empty((side * cell, side * cell, 3), np.uint8)
    for here in range(mdp.num_states):
        row, column = divmod(here, side)
        tile = frame[row * cell : (row + 1) * cell, column * cell : (column + 1) * cell]
        tile[:] = EDGE
        tile[1:-1, 1:-1] = GOAL if rewarded[here] else ICE
        if mdp.terminal[here] and not rewarded[here]:
            _disc(tile, 0.4, HOLE)
        if here == state:
            _disc(tile, 0.25, AGENT)
    return frame


def _disc(tile: Frame, radius: float, colour: tuple[int, int, int]) -> None:
    """A disc in the middle of a square tile; the radius is in widths of it."""
    across = (np.arange(len(tile)) + 0.5) / len(tile) - 0.5
    tile[across[:, None] ** 2 + across[None, :] ** 2 <= radius**2] = colour


def picture(observation: NDArray[Any]) -> Frame:
    """An observation [height, width, channels] enlarged, each channel in a colour of its own, the later ones on top."""
    strength = observation / 255 if observation.dtype == np.uint8 else np.clip(observation.astype(float), 0, 1)
    frame = np.broadcast_to(np.array(BACKGROUND, float), (*observation.shape[:2], 3))
    for channel in range(observation.shape[2]):
        share = strength[:, :, channel, None]
        frame = (1 - share) * frame + share * PALETTE[channel % len(PALETTE)]
    zoom = max(1, WIDTH // observation.shape[1])
    return frame.round().astype(np.uint8).repeat(zoom, 0).repeat(zoom, 1)
