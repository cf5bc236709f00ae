"""The planted failures and the healthy runs: one table for all libraries."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from planted_runs.tasks import Options

MEASURE_EVERY = 50  # rollouts; by default the first measurement is after three seconds


@dataclass(frozen=True)
class Case:
    """A run: the task, sizes and settings in Rollshape's vocabulary, and the suspect that should be named."""

    name: str
    suspect: str | None  # None: a healthy run
    task: str
    num_envs: int
    num_steps: int
    num_minibatches: int
    num_epochs: int
    num_updates: int
    learning_rate: float = 1e-3
    gamma: float = 0.99
    entropy_coef: float = 0.0
    value_coef: float = 0.5
    clip_range: float = 0.2
    is_annealed: bool = False  # the learning rate falls linearly to zero, where the library has such a schedule
    reward_scale: float = 1.0
    observation_scale: tuple[float, ...] = ()
    is_staggered: bool = True
    impossible_in: tuple[str, ...] = ()  # libraries in which it cannot do harm

    @property
    def minibatch_size(self) -> int:
        return self.num_envs * self.num_steps // self.num_minibatches

    @property
    def options(self) -> Options:
        return Options(self.reward_scale, self.observation_scale, self.is_staggered)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


CARTPOLE = Case("healthy CartPole", None, "cartpole", 64, 32, 8, 8, 104, is_annealed=True)
PENDULUM = Case("healthy Pendulum", None, "pendulum", 64, 32, 4, 8, 104, gamma=0.9)
HEALTHY = {case.task: case for case in (CARTPOLE, PENDULUM)}
# Enough gradient steps to fail:
SHORT_CARTPOLE = replace(CARTPOLE, num_minibatches=4, num_epochs=2, is_annealed=False)
SHORT_PENDULUM = replace(PENDULUM, num_epochs=4)
CASES = (
    replace(SHORT_PENDULUM, name="learning rate × 30", suspect="learning-rate", learning_rate=3e-2),
    replace(PENDULUM, name="too many epochs", suspect="policy-lag", num_envs=32, num_minibatches=1,
            num_epochs=30, learning_rate=3e-3, clip_range=10.0),
    replace(SHORT_PENDULUM, name="observations not normalized", suspect="observation-scale",
            observation_scale=(1.0, 1.0, 300.0)),
    replace(SHORT_CARTPOLE, name="minibatch above the noise scale", suspect="over-smooth", num_envs=256,
            num_minibatches=1, num_epochs=1),
    replace(SHORT_CARTPOLE, name="too few updates", suspect="few-updates", num_envs=32, num_steps=512,
            num_minibatches=16, num_epochs=4, num_updates=8),
    replace(SHORT_PENDULUM, name="synchronized resets", suspect="synchronized-resets", num_envs=128, num_steps=10,
            num_minibatches=5, num_updates=125, is_staggered=False),
    replace(SHORT_CARTPOLE, name="learning rate ÷ 100", suspect="learning-rate", learning_rate=1e-5),
    replace(SHORT_CARTPOLE, name="value loss dominates", suspect="value-dominates", value_coef=1e6,
            impossible_in=("rsl_rl",)),  # which clips the gradients of actor and critic separately
    replace(SHORT_CARTPOLE, name="entropy collapse", suspect="entropy-collapse", num_epochs=8, entropy_coef=-3.0),
    replace(SHORT_CARTPOLE, name="reward scale 1e4", suspect="reward-scale", reward_scale=1e4),
    replace(SHORT_PENDULUM, name="discount too short", suspect="discount-horizon", gamma=0.3),
    CARTPOLE,
    PENDULUM,
)  # fmt: skip


def run_directory(out: Path, library: str, case: Case, seed: int) -> Path:
    return out / library / f"{case.name}-{seed}"


def is_complete(path: Path, case: Case) -> bool:
    """Return whether a run was recorded to its end; the last row of some libraries is written when they exit."""
    metrics = path / "metrics.jsonl"
    return metrics.exists() and len(metrics.read_text().splitlines()) >= case.num_updates - 1
