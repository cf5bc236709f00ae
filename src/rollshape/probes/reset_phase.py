"""What environments that were all reset together do to the gradient, beside environments whose phases are spread.

Reset together, update j sees only the steps (j − 1)T … jT − 1 after the reset, and the mean of its gradient is
E[g | j], not G. Its error is |E[g | j] − G|² + Var/N: more environments remove the second term, never the first. G is
the same estimator's mean in a staggered batch. |E[g | j] − G|² is the U-statistic, over environments, of rows that were
reset together minus rows of a staggered batch, one environment each. Advantages are not normalised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.distributions import ActionDistribution
from rollshape.agents.networks import ActorCritic
from rollshape.agents.normalizer import Moments, scale_reward
from rollshape.agents.policy import Policy
from rollshape.envs.functional import Episode, FunctionalEnv, start
from rollshape.gradients import gram
from rollshape.gradients.intervals import Estimate, Floats, norm_estimate, squared_norm
from rollshape.gradients.traces import policy_traces
from rollshape.gradients.variance import cluster_variance
from rollshape.probes.stationary import horizons, stationary
from rollshape.training.loop import RunState, Trainer, entropy_of, on_one_device, phase_histogram
from rollshape.training.rollout import Rollout, collect
from rollshape.training.spec import Spec
from rollshape.training.update import advantages

ENVS, PHASES = 256, 16


@dataclass(frozen=True, slots=True)
class Phase:
    """One update after a common reset."""

    update: int  # from 1
    first_step: int
    squared: Estimate  # |E[g | phase] − G|²
    variance: float  # tr Var of the run's N environments' gradient within the phase
    entropy: float  # of the batch's phases: 0 when all are alike, 1 when they are spread evenly


@dataclass(frozen=True, slots=True)
class ResetPhase:
    """Means are over the phases that were measured. `between` is None, with a reason, where there are no phases."""

    num_envs: int  # of the run, at which variances are given
    num_steps: int
    horizon: int
    phases: tuple[Phase, ...]
    between: Estimate | None = None  # mean |E[g | phase] − G|²: what more environments cannot remove
    within: float | None = None  # mean variance within a phase
    staggered_variance: Estimate | None = None  # of a staggered batch, all of its error against G
    envs_of_balance: float | None = None  # N at which between = within; None where between cannot be told from zero
    staggered_histogram: tuple[float, ...] | None = None
    run_histogram: tuple[float, ...] | None = None  # shares of the run's own next rollout in 16 phases of the horizon
    run_entropy: float | None = None
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Window(NamedTuple):
    """A rollout of T steps, [N, T, …]."""

    observation: Array
    action: Array
    advantage: Array
    steps: Array  # of the episode before the action


def reset_phase(
    trainer: Trainer, state: RunState, *, num_envs: int = ENVS, num_phases: int = PHASES, seed: int = 0
) -> ResetPhase:
    """Of a checkpoint (see `open_run`): at most `num_phases` updates, evenly spread over one horizon from the reset."""
    spec, plan, env = trainer.spec, trainer.plan, trainer.env
    if not isinstance(env, FunctionalEnv):
        reason = f"{spec.env} runs on the host: the probe does not reset its environments together"
        return ResetPhase(plan.num_envs, plan.num_steps, env.horizon, (), reason=reason)
    model, moments = on_one_device(state)
    rewards = jax.device_put(state.rewards, jax.local_devices()[0])
    play = partial(
        _played, env, trainer.policy, replace(spec, env_kwargs=None), plan.num_steps, model, moments, rewards
    )
    burn, fresh, spread, together, own = jax.random.split(jax.random.key(seed), 5)
    settled, _ = stationary(env, trainer.policy, num_envs, model, moments, burn, horizons(env))
    staggered = play(settled, spread)[1]
    updates = max(1, -(-env.horizon // plan.num_steps))
    chosen = sorted({1 + i * updates // min(num_phases, updates) for i in range(min(num_phases, updates))})

    def windows() -> Iterator[tuple[int, Window]]:
        episodes = jax.vmap(partial(start, env))(jax.random.split(fresh, num_envs))
        for update in range(1, chosen[-1] + 1):
            episodes, window = play(episodes, jax.random.fold_in(together, update))
            if update in chosen:
                yield update, window

    run = jax.device_put(state.episodes, jax.local_devices()[0])
    _, seen = play(run, own)
    return between_phases(
        trainer, model, windows(), staggered, np.asarray(phase_histogram(seen.steps, env.horizon, seen.steps >= 0))
    )


def between_phases(
    trainer: Trainer,
    model: ActorCritic,
    windows: Iterable[tuple[int, Window]],
    staggered: Window,
    run_histogram: Floats | None,
) -> ResetPhase:
    """From windows after a common reset, with the numbers of their updates, and a staggered one of as many others."""
    plan, horizon, policy = trainer.plan, trainer.env.horizon, trainer.policy
    share = len(staggered.steps) / plan.num_envs  # from the probe's environments to the run's
    grams, phases = [], []
    for update, window in windows:
        own, paired = (np.asarray(x, np.float64) for x in _grams(policy, model, window, staggered))
        grams.append(paired)
        variance = float(np.trace(own) / len(own) - squared_norm(own)) / plan.num_envs
        entropy = float(entropy_of(phase_histogram(window.steps, horizon, window.steps >= 0)))
        phases.append(Phase(update, (update - 1) * plan.num_steps, norm_estimate(paired), variance, entropy))
    between = norm_estimate(np.mean(grams, axis=0))  # rows of all phases side by side are one row
    within = float(np.mean([phase.variance for phase in phases]))
    total = cluster_variance(_grams(policy, model, staggered, staggered)[0], np.random.default_rng(0))[0]
    return ResetPhase(
        num_envs=plan.num_envs,
        num_steps=plan.num_steps,
        horizon=horizon,
        phases=tuple(phases),
        between=between,
        within=within,
        staggered_variance=Estimate(*(share * x for x in (total.value, total.low, total.high))),
        envs_of_balance=within * plan.num_envs / between.value if between.low > 0 else None,
        staggered_histogram=_shares(np.asarray(phase_histogram(staggered.steps, horizon, staggered.steps >= 0))),
        run_histogram=None if run_histogram is None else _shares(run_histogram),
        run_entropy=None if run_histogram is None else float(entropy_of(jnp.asarray(run_histogram))),
    )


def _shares(counts: Floats) -> tuple[float, ...]:
    return tuple(float(x) for x in counts / counts.sum())


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _played(
    env: FunctionalEnv, policy: ActionDistribution, spec: Spec, num_steps: int, model: ActorCritic, moments: Moments | None,
    rewards: Moments | None, episodes: Episode, key: Array,
) -> tuple[Episode, Window]:  # fmt: skip
    """The next T steps, with the run's own advantages, not normalised; REINFORCE's mean is a constant."""
    act, move = jax.random.split(key)
    episodes, rollout = collect(env, Policy(model, moments, policy), episodes, (act, move), num_steps)
    if rewards is not None:
        rollout = rollout._replace(reward=scale_reward(rewards, rollout.reward))
    return episodes, window_of(spec, rollout)


def window_of(spec: Spec, rollout: Rollout) -> Window:
    """A rollout [T, N, …] as a window [N, T, …]."""
    estimate = advantages(spec, rollout)[0]
    if spec.algo == "reinforce" and spec.baseline == "mean":
        estimate = estimate - estimate.mean()
    columns = (rollout.observation, rollout.action, estimate, rollout.steps)
    return Window(*(jnp.swapaxes(column, 0, 1) for column in columns))


@partial(jax.jit, static_argnums=0)
def _grams(policy: ActionDistribution, model: ActorCritic, window: Window, staggered: Window) -> tuple[Array, Array]:
    """Gram matrices [N, N] of the window's rows, and of these minus the staggered ones."""
    mine, others = (
        gram.scaled(policy_traces(model, policy, w.observation, w.action), w.advantage) for w in (window, staggered)
    )
    own, cross = gram.row_gram(mine), gram.row_gram(mine, others)
    return own, own - cross - cross.T + gram.row_gram(others)
