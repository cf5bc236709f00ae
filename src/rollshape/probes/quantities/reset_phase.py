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
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from rollshape.envs.functional import Episode, FunctionalEnv
from rollshape.formatting import format_number
from rollshape.gradients.intervals import Estimate, Floats, estimate_squared_norm, squared_norm
from rollshape.gradients.variance import cluster_variance
from rollshape.probes.documents import read_fields
from rollshape.probes.plotting import BLUE, INTERVAL, ORANGE, bar_heights, probe_figure
from rollshape.probes.quantities.phase_windows import (
    Window,
    phase_counts,
    play_window,
    reset_together,
    run_phase_counts,
    window_grams,
)
from rollshape.probes.quantities.quantity import Quantity
from rollshape.probes.stationary import stationary_states
from rollshape.probes.subject import Checkpoint
from rollshape.probes.text import CI, TextTable, format_cells, format_estimate

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
    play = partial(play_window, env, checkpoint.estimator, plan.num_steps, policy, checkpoint.reward_moments)
    keys = (jax.random.fold_in(jax.random.key(seed), i) for i in range(5))
    burn_key, reset_key, staggered_key, phase_key, run_key = keys
    settled = settled or stationary_states(env, policy, num_envs, burn_key, env.horizon)
    settled = jax.tree.map(lambda x: np.asarray(x)[:num_envs], settled)
    staggered = play(settled, staggered_key)[1]
    updates = max(1, -(-env.horizon // plan.num_steps))
    selected = sorted({1 + i * updates // min(num_phases, updates) for i in range(min(num_phases, updates))})

    def windows() -> Iterator[tuple[int, Window]]:
        episodes = reset_together(env, num_envs, reset_key)
        for update in range(1, selected[-1] + 1):
            episodes, window = play(episodes, jax.random.fold_in(phase_key, update))
            if update in selected:
                yield update, window

    return compare_phases(checkpoint, windows(), staggered, run_phase_counts(play, checkpoint, num_envs, run_key))


def compare_phases(
    checkpoint: Checkpoint,
    windows: Iterable[tuple[int, Window]],
    staggered: Window,
    run_phases: tuple[Floats, float] | None,
) -> ResetPhase:
    """Compare windows after a common reset, given with their updates, with a staggered one of as many environments."""
    plan, horizon, policy = checkpoint.plan, checkpoint.env.horizon, checkpoint.policy
    scale = len(staggered.steps) / plan.num_envs  # from the probe's environments to the run's
    grams, phases = [], []
    for update, window in windows:
        rows, differences = (np.asarray(x, np.float64) for x in window_grams(policy, window, staggered))
        grams.append(differences)
        variance = float(np.trace(rows) / len(rows) - squared_norm(rows)) / plan.num_envs
        entropy = phase_counts(window.steps, horizon)[1]
        phases.append(
            Phase(update, (update - 1) * plan.num_steps, estimate_squared_norm(differences), variance, entropy)
        )
    between = estimate_squared_norm(np.mean(grams, axis=0))  # rows of all phases side by side are one row
    within = float(np.mean([phase.variance for phase in phases]))
    total = cluster_variance(window_grams(policy, staggered, staggered)[0], np.random.default_rng(0))[0]
    return ResetPhase(
        num_envs=plan.num_envs,
        num_steps=plan.num_steps,
        horizon=horizon,
        phases=tuple(phases),
        between=between,
        within=within,
        staggered_variance=Estimate(*(scale * x for x in (total.value, total.low, total.high))),
        envs_of_balance=within * plan.num_envs / between.value if between.low > 0 else None,
        staggered_histogram=_shares(phase_counts(staggered.steps, horizon)[0]),
        run_histogram=None if run_phases is None else _shares(run_phases[0]),
        run_entropy=None if run_phases is None else run_phases[1],
    )


def _shares(counts: Floats) -> tuple[float, ...]:
    return tuple(float(x) for x in counts / counts.sum())


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
