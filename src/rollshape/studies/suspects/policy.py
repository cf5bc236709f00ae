"""Checks of how far updates move the policy: too few updates, too many epochs, learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rollshape.geometry.dialects.remedy import shorten
from rollshape.geometry.rules.budget import FEW_UPDATES
from rollshape.studies.records import RunRecord
from rollshape.studies.remedies import Remedy
from rollshape.studies.run_verdict import read_scores
from rollshape.studies.statistics import Floats
from rollshape.studies.suspects.base import MAX_EVIDENCE, Missing, Suspect, check, evidence
from rollshape.studies.suspects.exploration import exploring_rows

NOTABLE_KL, NOTABLE_ESS, NOTABLE_CLIP = 0.05, 0.9, 0.3
NOTABLE_FIRST_KL = 0.012  # in the first epoch of an update
NOTABLE_STALL, NOTABLE_SMALL_STEP = 1e-4, 2e-4  # KL per update; √KL per gradient step
USUAL_EPOCHS = 20


@check("few-updates", "arithmetic; Stable-Baselines3 issues 1625, 766 and 660")
def few_updates(run: RunRecord, others: Sequence[RunRecord]) -> Suspect | None:
    """Count updates. Better runs that were no better after as many updates confirm it, otherwise they clear it."""
    scores = read_scores(run.rows)
    if not run.rows:
        return None
    updates, size = run.rows[-1].update, run.plan.rollout_size
    strength = evidence(updates, FEW_UPDATES, FEW_UPDATES / 10)
    message = f"{updates:,} updates were made (notable below {FEW_UPDATES})"
    numbers: dict[str, Any] = {"num_updates": updates, "threshold": FEW_UPDATES}
    others_then = _better_runs_at(updates, scores, others)
    if others_then is not None:
        end = float(scores[-2:].mean())
        confirms = others_then <= end + 2 * _noise(scores)
        strength = min(MAX_EVIDENCE, strength + 1) if confirms else strength - 1
        message += f"; after as many updates, better and longer runs were at {others_then:.4g}, this one at {end:.4g}"
        numbers |= {"others_then": others_then, "own_end": end}
    factor = FEW_UPDATES / max(1, updates)
    changes = shorten(run.plan.num_envs, run.plan.num_steps, factor) if factor > 1 else {}
    budget = f"Or train for {FEW_UPDATES * size:,} timesteps: {FEW_UPDATES} updates of {size:,} samples."
    return Suspect(strength, f"{message}.", Remedy(changes, budget), numbers)


def _noise(y: Floats) -> float:
    return float(np.std(np.diff(y)) / math.sqrt(2)) if y.size > 2 else 0.0


def _better_runs_at(update: int, scores: Floats, others: Sequence[RunRecord]) -> float | None:
    """Return the median score, at an update, of clearly better runs with at least 1.5 times as many updates."""
    values: list[float] = []
    for other in others:
        if not other.rows or other.rows[-1].update < 1.5 * update:
            continue
        theirs = read_scores(other.rows)
        if min(scores.size, theirs.size) < 2:
            continue
        is_better = theirs[-2:].mean() - scores[-2:].mean() > 3 * max(_noise(scores), _noise(theirs))
        later = [row.score for row in other.rows if row.update >= update]
        known = [value for value in later if value is not None]
        values += known[:1] if is_better else []
    return float(np.median(values)) if values else None


class EpochKl(NamedTuple):
    """Median KL divergence in the first and in the last epoch of an update; `source` says how the first is known."""

    first: float
    last: float
    source: str = ""


def kl_of_epochs(run: RunRecord) -> EpochKl | None:
    """Return the KL in the first and last epoch of an update, while the policy explores; None without such columns.

    Stable-Baselines3 and CleanRL log that of the last of E epochs only. Then KL/E is the estimate of the first: in
    recorded runs with too high a learning rate KL ∝ E^0.9, in others it grows faster. A log that has one KL per update,
    a mean over its epochs, gives both. Unusually many epochs explain either: nothing is attributed to the first then.
    """
    rows = exploring_rows(run)
    first, last = (run.at_epoch("approx_kl_epochs", epoch, rows) for epoch in (0, -1))
    if last:
        end = max(0.0, float(np.max(last[-3:]) if run.status == "diverged" else np.median(last)))
        if first:
            return EpochKl(max(0.0, float(np.median(first))), end)
        epochs = run.plan.num_epochs
        source = f", estimated from that of the last of {epochs} epochs, which the log has"
        return EpochKl(end / epochs if epochs <= USUAL_EPOCHS else 0.0, end, source)
    kl = run.median("approx_kl", rows)
    if kl is None or any(row.epoch_metric("approx_kl_epochs") for row in run.rows):
        return None  # not logged, or not finite
    kl = max(0.0, kl)
    return EpochKl(kl if run.plan.num_epochs <= USUAL_EPOCHS else 0.0, kl)


@check(
    "policy-lag",
    "Schulman et al. 2017: the ratio is only to be trusted near 1",
    follows={"learning-rate": 2.0},
)
def policy_lag(run: RunRecord, _: Sequence[RunRecord]) -> Suspect | Missing | None:
    """Measure how far the policy is from its data in the last epoch of an update: KL, ratio ESS, clip fraction."""
    if run.plan.gradient_steps_per_update <= 1:
        return None  # the data is the current policy's
    kls = kl_of_epochs(run)
    if kls is None:
        return Missing(("approx_kl",))
    rows = exploring_rows(run)
    last_ess = run.at_epoch("ratio_ess_epochs", -1, rows) or run.values("ratio_ess", rows)
    ess, clip = float(np.median(last_ess)) if last_ess else None, run.median("clip_fraction", rows)
    parts = [f"KL {kls.last:.2g} (notable above {NOTABLE_KL})"]
    strengths = [evidence(kls.last, NOTABLE_KL, 0.5)]
    if ess is not None:
        parts.append(f"effective sample size of the ratios {ess:.0%} (below {NOTABLE_ESS:.0%})")
        strengths.append(evidence(ess, NOTABLE_ESS, 0.4))
    if clip is not None:
        parts.append(f"clip fraction {clip:.0%} (above {NOTABLE_CLIP:.0%})")
        strengths.append(evidence(clip, NOTABLE_CLIP, 0.7))
    epochs = run.plan.num_epochs
    fewer = max(1, min(4, round(epochs / 4)))
    return Suspect(
        max(strengths),
        f"In the last of {epochs} epochs the policy has moved away from its data: {', '.join(parts)}.",
        Remedy({"num_epochs": fewer}, "Or stop updates early at a KL of 0.02.")
        if epochs > 1
        else Remedy({}, "Use fewer minibatches, or a lower learning rate."),
        {
            "approx_kl": kls.last,
            "ratio_ess": ess,
            "clip_fraction": clip,
            "threshold": {"approx_kl": NOTABLE_KL, "ratio_ess": NOTABLE_ESS, "clip_fraction": NOTABLE_CLIP},
        },
    )


@check(
    "learning-rate",
    "Hilton et al. 2021 (√ rule for Adam); the KL that PPO implementations steer to, 0.01 to 0.05",
    follows={"reward-scale": 2.0, "value-dominates": 2.0},
)
def learning_rate(run: RunRecord, others: Sequence[RunRecord]) -> Suspect | Missing | None:
    """Measure the KL of an update's first epoch (too large a step), of the update and per gradient step (too small)."""
    steps, rate = run.plan.gradient_steps_per_update, _rate(run)
    kls = kl_of_epochs(run)
    at_rate = "" if rate is None else f" at learning rate {rate:g}"
    if kls is None:
        if run.status != "diverged":
            return Missing(("approx_kl",))
        message = f"No finite value from the first logging interval on{at_rate}."
        advice = "Clip the gradient norm at 0.5."
        return Suspect(2.0, message, Remedy(_scaled(rate, 0.1), advice), {"learning_rate": rate})
    if steps <= 1:
        return None
    first, kl = kls.first, kls.last
    move = math.sqrt(kl) / steps
    fast = evidence(first, NOTABLE_FIRST_KL, 0.1)
    slow = min(evidence(kl, NOTABLE_STALL, 1e-6), evidence(move, NOTABLE_SMALL_STEP, 1e-5))
    threshold = {"first_epoch_kl": NOTABLE_FIRST_KL, "approx_kl": NOTABLE_STALL, "move": NOTABLE_SMALL_STEP}
    numbers = {"approx_kl": kl, "first_epoch_kl": first, "move": move, "learning_rate": rate, "threshold": threshold}
    if fast >= slow:
        message = (
            f"The first epoch of an update moves the policy by KL {first:.2g} (notable above {NOTABLE_FIRST_KL}"
            f"{kls.source}){at_rate}."
        )
        return Suspect(fast, message, Remedy(_scaled(rate, 0.1)), numbers)
    factor = math.sqrt(run.plan.minibatch_size / _smallest_minibatch(run, others))
    remedy = (
        Remedy(_scaled(rate, factor), "(√ rule from the smallest minibatch of these runs)")
        if factor > 1.5
        else Remedy(_scaled(rate, 10))
    )
    message = f"An update moves the policy by KL {kl:.2g} (notable below 1e-4){at_rate}."
    return Suspect(slow, message, remedy, numbers)


def _rate(run: RunRecord) -> float | None:
    return run.spec.learning_rate if run.knows("learning_rate") else run.median("learning_rate")


def _scaled(rate: float | None, factor: float) -> dict[str, float]:
    return {} if rate is None else {"learning_rate": float(f"{rate * factor:.2g}")}


def _smallest_minibatch(run: RunRecord, others: Sequence[RunRecord]) -> int:
    """Return the smallest minibatch size of the runs with the same learning rate."""
    same = [other for other in others if other.spec.learning_rate == run.spec.learning_rate]
    return min(record.plan.minibatch_size for record in (run, *same))
