"""What is wrong with a run while it trains: at most one line per rollout, each finding once. NumPy only.

Thresholds are conservative: `rollshape diagnose` weighs the whole run, this only warns early.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rollshape.formatting import format_number
from rollshape.geometry.plan import Plan
from rollshape.integrations.rollout import PHASE_BINS

Row = Mapping[str, Any]
LOW_SHARE = 0.1  # effective sample size of a rollout
LOW_PHASES = 0.3  # reset-phase entropy, relative to that of staggered environments
SHORT = 4  # an episode has at least so many rollouts
HIGH_KL = 0.2
HIGH_CLIP = 0.5
SMALL_SCALE = 1 / 8  # noise scale of single steps, relative to the minibatch
REPEATS = 3  # rollouts in a row that show a finding before it is reported


@dataclass
class Findings:
    """Reports each finding once per run, after it was observed in several rollouts."""

    plan: Plan
    _counts: dict[str, int] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)
    _known: dict[str, Any] = field(default_factory=dict)  # the last values of what most rows lack

    def check(self, row: Row, horizon: int | None = None) -> str | None:
        """Return the line of the first new finding of a row; None if there is none."""
        self._known |= {name: row[name] for name in ("episodic_length",) if row.get(name) is not None}
        row = {**row, **self._known, "horizon": horizon}
        for name, rule in RULES.items():
            if name in MEASURED and row.get(MEASURED[name]) is None:
                continue  # not measured in this rollout: neither confirmed nor refuted
            text = rule(row, self.plan)
            self._counts[name] = self._counts.get(name, 0) + 1 if text else 0
            if text and name not in self._reported and self._counts[name] >= (1 if name == "not-finite" else REPEATS):
                self._reported.add(name)
                return text
        return None


def _not_finite(row: Row, _: Plan) -> str | None:
    bad = [name for name in ("value_loss", "policy_loss", "reward_rms", "return_std") if _is_bad(row.get(name))]
    return f"{bad[0]} is not finite: lower the learning rate, or check rewards and observations" if bad else None


def _is_bad(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _synchronized(row: Row, plan: Plan) -> str | None:
    """Compare the phases of episodes in a rollout with those of staggered environments, once two episodes are over."""
    entropy, length, horizon = (row.get(name) for name in ("reset_phase_entropy", "episodic_length", "horizon"))
    if entropy is None or length is None or horizon is None or plan.num_envs < 8:
        return None
    phases = PHASE_BINS * length / horizon  # that staggered environments fill
    has_run = row.get("timesteps", 0) >= 2 * length * plan.num_envs
    if phases < 4 or length < SHORT * plan.num_steps or not has_run:
        return None
    expected = math.log(min(PHASE_BINS, phases)) / math.log(PHASE_BINS)
    if entropy > LOW_PHASES * expected:
        return None
    size = row.get("effective_sample_size")
    prefix = "" if size is None else f"effective sample size {format_number(size)} of {plan.rollout_size:,}; "
    return (
        f"{prefix}environments reset together: {plan.num_steps:,} steps show one phase of episodes of {length:,.0f} "
        "steps; start episodes at different steps, or use longer rollouts"
    )


def _correlated(row: Row, plan: Plan) -> str | None:
    size = row.get("effective_sample_size")
    if size is None or size > LOW_SHARE * plan.rollout_size:
        return None
    return (
        f"effective sample size {format_number(size)} of {plan.rollout_size:,}: the steps of an environment are "
        "strongly correlated; more environments with shorter rollouts would tell more"
    )


def _large_kl(row: Row, _: Plan) -> str | None:
    epochs = [value for value in row.get("approx_kl_epochs") or [row.get("approx_kl")] if value is not None]
    if not epochs or max(epochs) < HIGH_KL:
        return None
    where = f"in epoch {len(epochs)}" if len(epochs) > 1 else "per update"
    return f"KL divergence {epochs[-1]:.2g} {where}: use fewer epochs, a lower learning rate or target_kl"


def _clipped(row: Row, _: Plan) -> str | None:
    clipped = row.get("clip_fraction")
    if clipped is None or clipped < HIGH_CLIP:
        return None
    return f"{clipped:.0%} of the samples are clipped: use fewer epochs or a lower learning rate"


def _large_minibatch(row: Row, plan: Plan) -> str | None:
    scale, size = row.get("noise_scale"), row.get("effective_sample_size")
    if scale is None or size is None:
        return None
    single = scale * size / plan.rollout_size
    if single > SMALL_SCALE * plan.minibatch_size:
        return None
    return (
        f"noise scale {format_number(single)} against minibatches of {plan.minibatch_size:,}: smaller ones would "
        "give more gradient steps of nearly the same quality"
    )


RULES: dict[str, Callable[[Row, Plan], str | None]] = {
    "not-finite": _not_finite,
    "synchronized-resets": _synchronized,
    "correlated-steps": _correlated,
    "large-kl": _large_kl,
    "clipped": _clipped,
    "large-minibatch": _large_minibatch,
}
MEASURED = {
    "correlated-steps": "effective_sample_size",
    "large-minibatch": "noise_scale",
}  # columns of the gradient lab, which most rollouts lack
