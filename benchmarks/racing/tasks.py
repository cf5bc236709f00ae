"""The tasks of the benchmark, and which of them tune the racing rule. The split was fixed before any task was run.

A trial of space-invaders or reacher takes about 15 seconds of CPU time, more than half of it for evaluations, and the
machine was shared with other work. So before any two of their shapes were compared, their budget was set to 20,480
timesteps, and their candidates to eight shapes with rollouts of 64 to 1,024 samples (a twentieth of the budget, as in
the other tasks). Their data has three seeds; `collect` adds the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rollshape.studies.study import Study

POINTS = 20  # evaluations per run; the largest rollout is a twentieth of the budget
TINY, SMALL, LARGE = 20_480, 40_960, 163_840  # budgets

FAST_SHAPES = (
    (2, 32), (2, 128), (2, 512), (8, 8), (8, 32), (8, 128), (8, 512), (16, 512), (32, 8), (32, 32), (32, 128),
    (64, 128), (128, 8), (128, 32), (256, 32), (512, 8),
)  # fmt: skip
SLOW_SHAPES = (
    (2, 32), (2, 128), (2, 512), (4, 512), (8, 8), (8, 32), (8, 128), (8, 256), (16, 128), (32, 8), (32, 32), (64, 32),
    (128, 2), (128, 8), (256, 8), (512, 2),
)  # fmt: skip
TINY_SHAPES = ((2, 32), (2, 128), (2, 512), (8, 32), (8, 128), (32, 8), (32, 32), (128, 8))


@dataclass(frozen=True)
class Task:
    """An environment, the settings that all shapes share, and how much of it is run."""

    name: str
    env: str
    half: Literal["tune", "score"]
    settings: dict[str, Any] = field(default_factory=dict)
    total_timesteps: int = LARGE
    seeds: int = 10
    shapes: tuple[tuple[int, int], ...] = FAST_SHAPES

    def study(self, seeds: Sequence[int] | None = None) -> Study:
        """Return all shapes with all seeds or some of them; minibatches and epochs are the planner's."""
        return Study(
            name=self.name,
            title=f"{self.env}: {len(self.shapes)} shapes",
            claim="",
            fixed={"env": self.env, "total_timesteps": self.total_timesteps, **self.settings},
            points=tuple({"num_envs": num_envs, "num_steps": num_steps} for num_envs, num_steps in self.shapes),
            seeds=tuple(range(self.seeds) if seeds is None else seeds),
            evaluate_every=self.total_timesteps // POINTS,
        )


NORMALIZED = {"normalize_observations": True, "normalize_rewards": True}
EXPLORING = {"entropy_coef": 0.01}
SLOW: dict[str, Any] = {"total_timesteps": SMALL, "seeds": 5, "shapes": SLOW_SHAPES}
SLOWEST: dict[str, Any] = {"total_timesteps": TINY, "seeds": 5, "shapes": TINY_SHAPES}

TASKS = (
    Task("cartpole", "CartPole-v1", "tune", EXPLORING),
    Task("delay-chain", "tabular:DelayChain-v0", "score", EXPLORING | {"env_kwargs": {"delay": 16}}),
    Task("frozen-lake", "tabular:FrozenLake-v1", "tune", EXPLORING | {"learning_rate": 1e-3}),
    Task("acrobot", "Acrobot-v1", "score", NORMALIZED),
    Task("pendulum", "Pendulum-v1", "tune", {"gamma": 0.9, "learning_rate": 1e-3}),
    Task("mountain-car", "MountainCarContinuous-v0", "score", NORMALIZED),
    Task("breakout", "gymnax:Breakout-MinAtar", "tune", EXPLORING | {"learning_rate": 1e-3}, **SLOW),
    Task("space-invaders", "gymnax:SpaceInvaders-MinAtar", "score", EXPLORING | {"learning_rate": 1e-3}, **SLOWEST),
    Task("reacher", "envpool:Reacher-v5", "score", NORMALIZED, **SLOWEST),
)  # cheapest first
