"""The tasks of the benchmark, and which of them tune the racing rule.

The first nine were once split into a tuning and a scoring half. All of them tune now: several versions of the rule had
been scored on the second half, and it showed that constants chosen on four tasks do not fit others. The four that score
were chosen before any of them was run, and the rule before they were scored. (There were five: LunarLander was stopped
after nine trials, a minute each, which nobody looked at.)

Reacher and SpaceInvaders were first run with 20,480 timesteps, eight shapes and three seeds, because the machine was
shared with other work. With this budget the error of a score was up to half of what the best shape gains, so shapes
could not be ranked. Both were run again with the budget, shapes and seeds that other tasks already had: Reacher with
those of the classic tasks, SpaceInvaders with those of Breakout. Nothing was adjusted to their results.

Asterix was first run with 40,960 timesteps. The error of a shape's final score was 19 to 43 % of what the best shape
gains, so it could not rank shapes either. It was run again with the budget of the classic tasks, which was decided
before the rule of today was scored on any of the four tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rollshape.studies.study import Study

POINTS = 20  # evaluations per run; the largest rollout is a twentieth of the budget
SMALL, LARGE = 40_960, 163_840  # budgets

FAST_SHAPES = (
    (2, 32), (2, 128), (2, 512), (8, 8), (8, 32), (8, 128), (8, 512), (16, 512), (32, 8), (32, 32), (32, 128),
    (64, 128), (128, 8), (128, 32), (256, 32), (512, 8),
)  # fmt: skip
SLOW_SHAPES = (
    (2, 32), (2, 128), (2, 512), (4, 512), (8, 8), (8, 32), (8, 128), (8, 256), (16, 128), (32, 8), (32, 32), (64, 32),
    (128, 2), (128, 8), (256, 8), (512, 2),
)  # fmt: skip


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

TASKS = (
    Task("cartpole", "CartPole-v1", "tune", EXPLORING),
    Task("delay-chain", "tabular:DelayChain-v0", "tune", EXPLORING | {"env_kwargs": {"delay": 16}}),
    Task("frozen-lake", "tabular:FrozenLake-v1", "tune", EXPLORING | {"learning_rate": 1e-3}),
    Task("acrobot", "Acrobot-v1", "tune", NORMALIZED),
    Task("pendulum", "Pendulum-v1", "tune", {"gamma": 0.9, "learning_rate": 1e-3}),
    Task("mountain-car", "MountainCarContinuous-v0", "tune", NORMALIZED),
    Task("breakout", "gymnax:Breakout-MinAtar", "tune", EXPLORING | {"learning_rate": 1e-3}, **SLOW),
    Task("space-invaders", "gymnax:SpaceInvaders-MinAtar", "tune", EXPLORING | {"learning_rate": 1e-3}, **SLOW),
    Task("reacher", "envpool:Reacher-v5", "tune", NORMALIZED, seeds=5),
    Task("catch", "gymnax:Catch-bsuite", "score", EXPLORING, **SLOW),
    Task("four-rooms", "gymnax:FourRooms-misc", "score", EXPLORING, **SLOW),
    Task(
        "asterix", "gymnax:Asterix-MinAtar", "score", EXPLORING | {"learning_rate": 1e-3}, seeds=5, shapes=SLOW_SHAPES
    ),
    Task("pusher", "envpool:Pusher-v5", "score", NORMALIZED, seeds=5),
)
