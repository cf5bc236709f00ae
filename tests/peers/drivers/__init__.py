"""Train CartPole with a real library on a config that Rollshape wrote, and count what the library does.

Each driver builds the library's own objects from the config, adds only what no config of ours says (a network, the
environment), and trains until the config's own budget is spent. Nothing here knows what to expect.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

SEED = 7
CARTPOLE = "CartPole-v1"

Pair = tuple[int, int]  # (step of the rollout, environment)


@dataclass(frozen=True)
class Collected:
    """What an update of RLlib was made of. Steps and ends are counted in the environments, rows in the learner."""

    env_steps: int
    episodes_ended: int
    just_ended: int  # environments whose next episode had not made a step when the rollout was cut
    rows: int


@dataclass(frozen=True)
class Counted:
    """What a library really did: one entry for each update."""

    minibatches: list[list[int]]  # samples in each minibatch, in order, all epochs
    steps: list[int]  # of the optimiser
    settings: dict[str, float]  # hyperparameters as the library's objects hold them, by Rollshape's names
    trained: list[list[Pair]] = field(default_factory=list)  # every pair, as often as it was trained on (rsl_rl)
    collected: list[Collected] = field(default_factory=list)  # (RLlib)

    @property
    def optimizer_steps(self) -> int:
        return sum(self.steps)


class Tally:
    """Counts while a library trains."""

    def __init__(self) -> None:
        self.minibatches: list[list[int]] = []
        self.steps: list[int] = []

    def new_update(self, *_: Any, **__: Any) -> None:
        self.minibatches.append([])
        self.steps.append(0)

    def minibatch(self, size: int) -> None:
        self.minibatches[-1].append(size)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the steps of every optimiser, through torch's own hook: no library is asked what it counted."""
        hook = register_optimizer_step_post_hook(self._stepped)
        try:
            yield
        finally:
            hook.remove()

    def _stepped(self, *_: Any) -> None:
        self.steps[-1] += 1


def before(owner: Any, method: str, look: Callable[..., None]) -> None:
    """Have `look` called with the arguments of each call of the object's method, before it runs."""
    original = getattr(owner, method)

    def watched(*args: Any, **kwargs: Any) -> Any:
        look(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(owner, method, watched)


def each(owner: Any, method: str, look: Callable[[Any], None]) -> None:
    """Have `look` called with each item that the object's method yields or returns, before it is used."""
    original = getattr(owner, method)

    def watched(*args: Any, **kwargs: Any) -> Iterator[Any]:
        for item in original(*args, **kwargs):
            look(item)
            yield item

    setattr(owner, method, watched)


def seed_everything() -> None:
    seed = SEED + int(os.environ.get("RANK", "0"))  # processes that train together differ in weights and actions
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
