"""Runs in phases of equal timesteps, each with its own shape.

At a change of shape the parameters, the state of the optimizer and the moments of the normalizers are kept. Running
episodes go on: with fewer environments the first N are kept, with more the others start new episodes. Random keys are
functions of the seed and the number of the update, which is not reset, so no key is used twice.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from racing.tasks import POINTS, Task

from adapting.rules import RULES, SCHEDULES, Phase, Run, Shape, Signals
from rollshape.envs.functional import FunctionalEnv, start
from rollshape.quick_jit import quick_options
from rollshape.training import programs
from rollshape.training.driver import Driver, RunState, UpdateMetrics
from rollshape.training.monitor import plan_sampling
from rollshape.training.scoring import EVAL_EPISODES
from rollshape.training.setup import new_driver, plan_run, use_compilation_cache
from rollshape.training.spec import Spec
from rollshape.training.streams import stream_key

NUM_PHASES = 10
MEASURED_EVERY = 2_048  # timesteps, or every rollout if that is longer
LAST_INDEX = 2**31 - 2  # of the env stream; those below it belong to phases
EVALUATED = 3  # of the 20 evaluations of a run, the last ones: their mean is its score

programs.MOST_PROGRAMS = 64  # all shapes of a task


@dataclass(frozen=True)
class PhasedRun:
    """A run: its shapes and measurements by phase, and the returns of its last evaluations."""

    task: str
    rule: str
    start: str
    seed: int
    shapes: list[list[int]]
    signals: list[list[float | None]]
    eval_return: list[float]
    is_finite: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def score(self) -> float:
        return sum(self.eval_return) / len(self.eval_return)


class PhasedTrainer:
    """Trains one task; keeps the compiled driver of every shape, which serves all seeds."""

    def __init__(self, task: Task, *, is_monitored: bool = True, evaluated: int = EVALUATED) -> None:
        use_compilation_cache()
        self.task, self.is_monitored, self.evaluated = task, is_monitored, evaluated
        self._drivers: dict[Shape, Driver] = {}

    def run(self, rule: str, first: Shape, seed: int) -> PhasedRun:
        """Train one run; a run whose parameters are not finite any more stops and keeps its last returns."""
        phases: list[Phase] = []
        scores: list[float] = []
        state, is_finite = None, True
        every = self.task.total_timesteps // POINTS
        for index in range(NUM_PHASES):
            driver = self.driver(self._choose(rule, first, phases))
            state = self._begin(driver, seed) if state is None else _carry_over(driver, state, seed, index)
            metrics: list[UpdateMetrics] = []
            for point in range(POINTS * index // NUM_PHASES, POINTS * (index + 1) // NUM_PHASES):
                state = _advance(driver, state, every // driver.plan.rollout_size, metrics)
                if point >= POINTS - self.evaluated:
                    scores.append(driver.score(state, seed, EVAL_EPISODES).mean)
            phases.append(Phase(Shape(driver.plan.num_envs, driver.plan.num_steps), _summarize(metrics)))
            is_finite = all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.learner.network))
            if not is_finite:
                scores = scores or [driver.score(state, seed, EVAL_EPISODES).mean]
                break
        return PhasedRun(
            self.task.name, rule, str(first), seed, [list(phase.shape) for phase in phases],
            [[_shorten(value) for value in phase.signals] for phase in phases],
            [float(f"{score:.6g}") for score in scores], is_finite,
        )  # fmt: skip

    def driver(self, shape: Shape) -> Driver:
        if shape not in self._drivers:
            spec = self.spec(shape)
            plan = plan_run(spec)
            if plan.num_updates is None or plan.rollout_size != shape.rollout_size:
                raise ValueError(f"{shape} is not a legal shape of {self.task.name}")
            driver = new_driver(spec, plan, max(1, MEASURED_EVERY // plan.rollout_size))
            if self.is_monitored:  # all samples of a rollout, up to 4096: a rule needs more than a log
                driver.monitored = plan_sampling(plan, 1, LAST_INDEX)
            driver.compile()
            self._drivers[shape] = driver
        return self._drivers[shape]

    def spec(self, shape: Shape) -> Spec:
        task = self.task
        return Spec(
            env=task.env, num_envs=shape.num_envs, num_steps=shape.num_steps, total_timesteps=task.total_timesteps,
            num_shards=1, monitor_gradients=self.is_monitored, **task.settings,
        )  # fmt: skip

    def _choose(self, rule: str, first: Shape, phases: list[Phase]) -> Shape:
        if not phases and rule not in SCHEDULES:
            return first
        spec = self.spec(first)
        return RULES[rule](Run(first, phases, NUM_PHASES, spec.gamma, spec.gae_lambda))

    def _begin(self, driver: Driver, seed: int) -> RunState:
        begin: Any = jax.jit(driver.initial_state, compiler_options=quick_options())
        return driver.place(begin(np.uint32(seed)))


def _advance(driver: Driver, state: RunState, updates: int, metrics: list[UpdateMetrics]) -> RunState:
    """Make so many updates, in intervals whose last rollout is measured."""
    while updates > 0:
        count = min(driver.interval, updates)
        state, rows, _ = driver.advance(state, count)
        metrics.append(rows)
        updates -= count
    return state


def _carry_over(driver: Driver, state: RunState, seed: int, phase: int) -> RunState:
    """Return the state for another number of environments."""
    if state.normalizer.discounted.shape[0] == driver.plan.num_envs:
        return state
    key = stream_key(seed, "env", LAST_INDEX - phase)
    return driver.place(_resized(driver.env, driver.plan.num_envs, state, key))


@partial(jax.jit, static_argnums=(0, 1))
def _resized(env: FunctionalEnv, num_envs: int, state: RunState, key: jax.Array) -> RunState:
    fresh = jax.vmap(partial(start, env))(jax.random.split(key, num_envs))
    discounted = state.normalizer.discounted

    def join(running: jax.Array, new: jax.Array) -> jax.Array:
        return jnp.concatenate([running[:num_envs], new[running.shape[0] :]]).astype(running.dtype)

    return state._replace(
        episodes=jax.tree.map(join, state.episodes, fresh),
        normalizer=state.normalizer._replace(discounted=join(discounted, jnp.zeros(num_envs))),
    )


def _summarize(metrics: list[UpdateMetrics]) -> Signals:
    """Return medians over the measured rollouts, and means over all updates."""
    kl = np.concatenate([rows.info.approx_kl[:, -1] for rows in metrics])
    explained = np.concatenate([rows.info.explained_variance for rows in metrics])
    explained = explained[np.isfinite(explained)]
    scale, size = None, None
    if (signals := [rows.signals for rows in metrics if rows.signals is not None]) != []:
        scale = _finite(np.median([_or_infinite(part.noise_scale[-1]) for part in signals]))
        sizes = [part.effective_sample_size[-1] for part in signals if np.isfinite(part.effective_sample_size[-1])]
        size = _finite(np.median(sizes)) if sizes else None
    return Signals(
        scale, size, _finite(math.sqrt(max(0.0, float(kl.mean())) / 2)),
        _finite(np.median(explained)) if explained.size else None,
    )  # fmt: skip


def _or_infinite(value: float) -> float:
    return float(value) if math.isfinite(value) else math.inf


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _shorten(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
