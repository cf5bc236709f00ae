"""Checks of how far updates move the policy: too few updates, policy lag, learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rollshape.geometry.rules.budget import FEW_UPDATES
from rollshape.studies.records import RunRecord
from rollshape.studies.run_verdict import read_scores
from rollshape.studies.statistics import Floats
from rollshape.studies.suspects.base import MAX_EVIDENCE, Suspect, check, evidence

NOTABLE_KL, NOTABLE_ESS, NOTABLE_CLIP = 0.05, 0.9, 0.3
NOTABLE_STEP, NOTABLE_STALL = 0.01, 1e-4  # √KL per gradient step; KL per update


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
    fix = (
        f"Use total_timesteps {FEW_UPDATES * size:,} for {FEW_UPDATES} updates of {size:,} samples, or a smaller "
        "rollout_size."
    )
    return Suspect(strength, f"{message}.", fix, numbers)


def _noise(y: Floats) -> float:
    return float(np.std(np.diff(y)) / math.sqrt(2)) if y.size > 2 else 0.0


def _better_runs_at(update: int, scores: Floats, others: Sequence[RunRecord]) -> float | None:
    """Return the median score, at an update, of clearly better runs with at least 1.5 times as many updates."""
    values: list[float] = []
    for other in others:
        theirs = read_scores(other.rows)
        if min(scores.size, theirs.size) < 2 or other.rows[-1].update < 1.5 * update:
            continue
        is_better = theirs[-2:].mean() - scores[-2:].mean() > 3 * max(_noise(scores), _noise(theirs))
        later = [row.metric("eval_return") for row in other.rows if row.update >= update]
        known = [value for value in later if value is not None]
        values += known[:1] if is_better else []
    return float(np.median(values)) if values else None


@check("policy-lag", "Schulman et al. 2017: the ratio is only to be trusted near 1")
def policy_lag(run: RunRecord, _: Sequence[RunRecord]) -> Suspect | None:
    """Measure how far the policy is from its data in the last epoch of an update: KL, ratio ESS, clip fraction.

    What the first epoch does alone is attributed to the learning rate and subtracted.
    """
    if run.plan.gradient_steps_per_update == 1:
        return None  # the data is the current policy's
    last_kl, last_ess = run.at_epoch("approx_kl_epochs", -1), run.at_epoch("ratio_ess_epochs", -1)
    first_kl, clip_fractions = run.at_epoch("approx_kl_epochs", 0), run.values("clip_fraction")
    if not last_kl or not last_ess or not first_kl or not clip_fractions:
        return None
    kl, early_kl, ess, clip = (float(np.median(values)) for values in (last_kl, first_kl, last_ess, clip_fractions))
    strength = max(evidence(kl, NOTABLE_KL, 0.5), evidence(ess, NOTABLE_ESS, 0.4), evidence(clip, NOTABLE_CLIP, 0.7))
    strength -= max(0.0, evidence(early_kl, NOTABLE_KL, 0.5))
    epochs = run.plan.num_epochs
    return Suspect(
        strength,
        f"In the last of {epochs} epochs the policy has moved away from its data: KL {kl:.2g} (notable above "
        f"{NOTABLE_KL}), effective sample size of the ratios {ess:.0%} (below {NOTABLE_ESS:.0%}), clip fraction "
        f"{clip:.0%} (above {NOTABLE_CLIP:.0%}).",
        f"Use fewer than {epochs} epochs, or stop early with --target-kl 0.02."
        if epochs > 1
        else "Use fewer minibatches, or a lower learning rate.",
        {
            "approx_kl": kl,
            "ratio_ess": ess,
            "clip_fraction": clip,
            "threshold": {"approx_kl": NOTABLE_KL, "ratio_ess": NOTABLE_ESS, "clip_fraction": NOTABLE_CLIP},
        },
    )


@check("learning-rate", "Hilton et al. 2021 (√ rule for Adam); the KL that PPO implementations steer to, 0.01 to 0.05")
def learning_rate(run: RunRecord, others: Sequence[RunRecord]) -> Suspect | None:
    """Measure √KL per gradient step (too large a step) and KL per update (hardly any step)."""
    steps, rate = run.plan.gradient_steps_per_update, run.spec.learning_rate
    last_kl = run.at_epoch("approx_kl_epochs", -1)
    if not last_kl:
        if run.status != "diverged":
            return None
        return Suspect(
            2.0,
            f"No finite value from the first logging interval on, at learning rate {rate:g}.",
            f"Try {rate / 10:.2g}, and clip the gradient norm at 0.5.",
            {"learning_rate": rate},
        )
    if steps == 1:
        return None
    kl = max(0.0, float(np.max(last_kl[-3:]) if run.status == "diverged" else np.median(last_kl)))
    step = math.sqrt(kl) / steps
    fast, slow = evidence(step, NOTABLE_STEP, 0.03), evidence(kl, NOTABLE_STALL, 1e-6)
    threshold = {"move": NOTABLE_STEP, "approx_kl": NOTABLE_STALL}
    numbers = {"approx_kl": kl, "move": step, "learning_rate": rate, "threshold": threshold}
    if fast >= slow:
        message = (
            f"A gradient step moves the policy by √KL = {step:.2g} (notable above {NOTABLE_STEP}) at learning rate "
            f"{rate:g}."
        )
        return Suspect(fast, message, f"Try {rate / 10:.2g}.", numbers)
    factor = math.sqrt(run.plan.minibatch_size / _smallest_minibatch(run, others))
    suggestion = (
        f"Try {rate * factor:.2g} (√ rule from the smallest minibatch of these runs)."
        if factor > 1.5
        else f"Try {rate * 10:.2g}."
    )
    message = f"An update moves the policy by KL {kl:.2g} (notable below 1e-4) at learning rate {rate:g}."
    return Suspect(slow, message, suggestion, numbers)


def _smallest_minibatch(run: RunRecord, others: Sequence[RunRecord]) -> int:
    """Return the smallest minibatch size of the runs with the same learning rate."""
    same = [other for other in others if other.spec.learning_rate == run.spec.learning_rate]
    return min(record.plan.minibatch_size for record in (run, *same))
