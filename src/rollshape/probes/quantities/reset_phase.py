"""Gradient error of environments that are reset at the same time, compared with staggered ones.

After a common reset, update j contains only the steps (j − 1)T … jT − 1 of every episode, so its mean is E[g | j] and
not G. Its error is |E[g | j] − G|² + Var/N: more environments reduce the second term but never the first. G is the mean
of the same estimator in a staggered batch. |E[g | j] − G|² is the U-statistic, over environments, of rows after a
common reset minus rows of a staggered batch, one environment each. Advantages are not normalized.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.normalizer import Moments, scale_reward
from rollshape.agents.policy import Policy
from rollshape.algorithms.base import Rollout
from rollshape.envs.functional import Episode, FunctionalEnv, start
from rollshape.formatting import format_number
from rollshape.gradients import gram
from rollshape.gradients.intervals import Estimate, Floats, estimate_squared_norm, squared_norm
from rollshape.gradients.scores import policy_rows
from rollshape.gradients.variance import cluster_variance
from rollshape.probes.documents import read_fields
from rollshape.probes.plotting import BLUE, INTERVAL, ORANGE, bar_heights, probe_figure
from rollshape.probes.quantities.quantity import Quantity
from rollshape.probes.stationary import stationary_states
from rollshape.probes.subject import Checkpoint, Estimator
from rollshape.probes.text import CI, TextTable, format_cells, format_estimate
from rollshape.quick_jit import quick_jit
from rollshape.training.driver import histogram_entropy, phase_histogram
from rollshape.training.rollout import collect_with_policy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rollshape.probes.context import ProbeContext
    from rollshape.probes.result import Probe

ENVS, PHASES = 256, 16


@dataclass(frozen=True, slots=True)
class Phase:
    """One update after a common reset."""

    update: int  # from 1
    first_step: int
    squared: Estimate  # |E[g | phase] − G|²
    variance: float  # tr Var of the gradient of the run's N environments within the phase
    entropy: float  # of the episode steps in the batch: 0 if all are equal, 1 if they are uniform


@dataclass(frozen=True, slots=True)
class ResetPhase:
    """Means over the measured phases. `between` is None, with a reason, where there are no phases."""

    num_envs: int  # of the run, for which variances are given
    num_steps: int
    horizon: int
    phases: tuple[Phase, ...]
    between: Estimate | None = None  # mean |E[g | phase] − G|²: what more environments do not reduce
    within: float | None = None  # mean variance within a phase
    staggered_variance: Estimate | None = None  # the whole error of a staggered batch
    envs_of_balance: float | None = None  # N at which between = within; None where between may be zero
    staggered_histogram: tuple[float, ...] | None = None
    run_histogram: tuple[float, ...] | None = None  # of the run's next rollout, in 16 bins of the horizon
    run_entropy: float | None = None
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ResetPhase:
        changes: dict[str, Any] = {
            "phases": tuple(
                Phase(**{**phase, "squared": read_fields(phase["squared"])}) for phase in document["phases"]
            ),
            "between": read_fields(document["between"]),
            "staggered_variance": read_fields(document["staggered_variance"]),
        }
        for name in ("staggered_histogram", "run_histogram"):
            changes[name] = None if document[name] is None else tuple(document[name])
        return cls(**{**document, **changes})


class Window(NamedTuple):
    """A rollout of T steps, [N, T, …]."""

    observation: Array
    action: Array
    advantage: Array
    steps: Array  # of the episode before the action


def measure(context: ProbeContext) -> ResetPhase:
    context.on_progress("phases after a common reset")
    return measure_reset_phase(context.checkpoint, seed=context.seed, settled=context.settled)


def measure_reset_phase(
    checkpoint: Checkpoint,
    *,
    num_envs: int = ENVS,
    num_phases: int = PHASES,
    seed: int = 0,
    settled: Episode | None = None,
) -> ResetPhase:
    """Measure at most `num_phases` updates, evenly spaced over one horizon after a common reset.

    The staggered batch starts from `settled` states, or from fresh ones of the stationary distribution.
    """
    plan, env, policy = checkpoint.plan, checkpoint.env, checkpoint.policy
    if not isinstance(env, FunctionalEnv):
        reason = f"{checkpoint.spec.env} runs on the host, where the probe does not reset environments together"
        return ResetPhase(plan.num_envs, plan.num_steps, env.horizon, (), reason=reason)
    play = partial(_play, env, checkpoint.estimator, plan.num_steps, policy, checkpoint.reward_moments)
    keys = (jax.random.fold_in(jax.random.key(seed), i) for i in range(5))
    burn_key, reset_key, staggered_key, phase_key, run_key = keys
    settled = settled or stationary_states(env, policy, num_envs, burn_key, env.horizon)
    settled = jax.tree.map(lambda x: np.asarray(x)[:num_envs], settled)
    staggered = play(settled, staggered_key)[1]
    updates = max(1, -(-env.horizon // plan.num_steps))
    selected = sorted({1 + i * updates // min(num_phases, updates) for i in range(min(num_phases, updates))})

    def windows() -> Iterator[tuple[int, Window]]:
        episodes = _reset(env, num_envs, reset_key)
        for update in range(1, selected[-1] + 1):
            episodes, window = play(episodes, jax.random.fold_in(phase_key, update))
            if update in selected:
                yield update, window

    return compare_phases(checkpoint, windows(), staggered, run_histogram(play, checkpoint, num_envs, run_key))


def run_histogram(play: Any, checkpoint: Checkpoint, num_envs: int, key: Array) -> tuple[Floats, float]:
    """Return the histogram and entropy of the phases of the run's next rollout.

    It is played in as many environments as the program has: the run's own, repeated.
    """
    count, states = checkpoint.plan.num_envs, checkpoint.episodes
    if count <= num_envs:
        states = jax.tree.map(lambda x: jax.device_put(np.resize(np.asarray(x), (num_envs, *x.shape[1:]))), states)
    _, rollout = play(states, key)
    return _histogram(np.asarray(rollout.steps)[:count], checkpoint.env.horizon)


def compare_phases(
    checkpoint: Checkpoint,
    windows: Iterable[tuple[int, Window]],
    staggered: Window,
    run_histogram: tuple[Floats, float] | None,
) -> ResetPhase:
    """Compare windows after a common reset, given with their updates, with a staggered one of as many environments."""
    plan, horizon, policy = checkpoint.plan, checkpoint.env.horizon, checkpoint.policy
    scale = len(staggered.steps) / plan.num_envs  # from the probe's environments to the run's
    grams, phases = [], []
    for update, window in windows:
        rows, differences = (np.asarray(x, np.float64) for x in _grams(policy, window, staggered))
        grams.append(differences)
        variance = float(np.trace(rows) / len(rows) - squared_norm(rows)) / plan.num_envs
        entropy = _histogram(window.steps, horizon)[1]
        phases.append(
            Phase(update, (update - 1) * plan.num_steps, estimate_squared_norm(differences), variance, entropy)
        )
    between = estimate_squared_norm(np.mean(grams, axis=0))  # rows of all phases side by side are one row
    within = float(np.mean([phase.variance for phase in phases]))
    total = cluster_variance(_grams(policy, staggered, staggered)[0], np.random.default_rng(0))[0]
    return ResetPhase(
        num_envs=plan.num_envs,
        num_steps=plan.num_steps,
        horizon=horizon,
        phases=tuple(phases),
        between=between,
        within=within,
        staggered_variance=Estimate(*(scale * x for x in (total.value, total.low, total.high))),
        envs_of_balance=within * plan.num_envs / between.value if between.low > 0 else None,
        staggered_histogram=_shares(_histogram(staggered.steps, horizon)[0]),
        run_histogram=None if run_histogram is None else _shares(run_histogram[0]),
        run_entropy=None if run_histogram is None else run_histogram[1],
    )


def _histogram(steps: Any, horizon: int) -> tuple[Floats, float]:
    """Return the counts of the phases of steps [N, T], and their entropy."""
    counts, entropy = _phases(steps, horizon)
    return np.asarray(counts), float(entropy)


@partial(quick_jit, static_argnums=1)
def _phases(steps: Array, horizon: int) -> tuple[Array, Array]:
    counts = phase_histogram(steps, horizon, steps >= 0)
    return counts, histogram_entropy(counts)


@partial(quick_jit, jit=eqx.filter_jit)
def _reset(env: FunctionalEnv, num_envs: int, key: Array) -> Episode:
    fresh: Episode = jax.vmap(partial(start, env))(jax.random.split(key, num_envs))
    return fresh


def _shares(counts: Floats) -> tuple[float, ...]:
    return tuple(float(x) for x in counts / counts.sum())


@partial(quick_jit, jit=eqx.filter_jit)
def _play(
    env: FunctionalEnv, estimator: Estimator, num_steps: int, policy: Policy, reward_moments: Moments | None,
    episodes: Episode, key: Array,
) -> tuple[Episode, Window]:  # fmt: skip
    """Play the next T steps."""
    policy_key, env_key = jax.random.split(key)
    episodes, rollout = collect_with_policy(env, policy, episodes, (policy_key, env_key), num_steps)
    if reward_moments is not None:
        rollout = rollout._replace(reward=scale_reward(reward_moments, rollout.reward))
    return episodes, new_window(estimator, rollout)


def new_window(estimator: Estimator, rollout: Rollout) -> Window:
    """Return a rollout [T, N, …] as a window [N, T, …] with the run's own advantages."""
    advantage = estimator.advantages(rollout)[0]
    if estimator.centers_advantages:
        advantage = advantage - advantage.mean()
    columns = (rollout.observation, rollout.action, advantage, rollout.steps)
    return Window(*(jnp.swapaxes(column, 0, 1) for column in columns))


@partial(quick_jit, jit=eqx.filter_jit)
def _grams(policy: Policy, window: Window, staggered: Window) -> tuple[Array, Array]:
    """Return the Gram matrices [N, N] of the window's rows, and of these minus the staggered ones."""
    rows, others = (
        policy_rows(policy.network, policy.distribution, w.observation, w.action, w.advantage)
        for w in (window, staggered)
    )
    row_gram, cross = gram.row_gram(rows), gram.row_gram(rows, others)
    return row_gram, row_gram - cross - cross.T + gram.row_gram(others)


def to_dict(probe: Probe) -> dict[str, Any]:
    return {"reset_phase": None if probe.reset_phase is None else probe.reset_phase.to_dict()}


def from_dict(document: Mapping[str, Any]) -> ResetPhase | None:
    return None if document["reset_phase"] is None else ResetPhase.from_dict(document["reset_phase"])


def sentences(probe: Probe) -> list[str]:
    result = probe.reset_phase
    if result is None:
        return []
    if result.between is None:
        return [f"Effect of resetting all environments at the same time: not measured, {result.reason}."]
    if result.envs_of_balance is None:
        return ["Resetting all environments at the same time: no effect on the gradient detected."]
    return [
        "If all environments were reset at the same time, every update would contain only one part of an episode: a "
        f"squared gradient error of {format_estimate(result.between)} that more environments do not reduce, as much "
        f"as the noise of {format_number(round(result.envs_of_balance))} environments × {result.num_steps:,} steps."
    ]


def tables(probe: Probe) -> list[TextTable]:
    result = probe.reset_phase
    if result is None or result.between is None:
        return []
    rows = [
        ("reset together: bias of a single update", *format_cells(result.between)),
        ("reset together: variance", "–" if result.within is None else format_number(result.within), ""),
        ("staggered: total", *format_cells(result.staggered_variance)),
    ]
    if result.run_entropy is not None:
        rows.append(("how staggered the run is (0 … 1)", f"{result.run_entropy:.2f}", ""))
    title = f"Squared gradient error by reset schedule (episodes of up to {result.horizon:,} steps)"
    return [TextTable(title, ("", "value", CI), rows)]


def figures(probe: Probe) -> dict[str, Figure]:
    """Draw the bias of every phase beside the error of a staggered batch, and the episode steps in the batches."""
    result = probe.reset_phase
    if result is None or result.between is None:
        return {}
    title = "Environments reset at the same time, compared with staggered ones"
    figure = probe_figure(probe, title, INTERVAL, (9.0, 4.5))
    errors, shares = figure.subplots(1, 2)
    places = np.arange(len(result.phases))
    errors.bar(
        places,
        **bar_heights([p.squared for p in result.phases]),
        color=ORANGE,
        label="bias² of one update, reset together",
    )
    errors.set_xticks(places, [f"{p.first_step:,}" for p in result.phases], rotation=90, fontsize=7)
    if (variance := result.staggered_variance) is not None:
        errors.axhline(variance.value, color=BLUE, label="variance of a staggered batch")
        errors.axhspan(variance.low, variance.high, color=BLUE, alpha=0.2)
    errors.axhline(0, color="black", linewidth=0.6)
    errors.set(xlabel="steps since the common reset", ylabel="squared error of the gradient")
    errors.legend(fontsize=8, frameon=False)
    for name, histogram, color in (
        ("next rollout of the run", result.run_histogram, ORANGE),
        ("staggered", result.staggered_histogram, BLUE),
    ):
        if histogram is not None:
            edges = np.linspace(0, result.horizon, len(histogram) + 1)
            shares.stairs(histogram, edges, label=name, color=color)
    shares.set(xlabel="step of the episode", ylabel="share of samples", ylim=(0, None))
    shares.legend(fontsize=8, frameon=False)
    return {"reset_phase": figure}


RESET_PHASE = Quantity["ProbeContext", "Probe"](
    name="reset_phase", part="phases", measure=measure, to_dict=to_dict, from_dict=from_dict, sentences=sentences,
    tables=tables, figures=figures,
)  # fmt: skip
