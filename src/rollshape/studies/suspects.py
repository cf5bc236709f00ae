"""Why a run did badly: each suspect measured, on one scale of evidence.

A suspect has a number that was measured, one that is notable and one that is severe. Its evidence is where the measured
one lies between them, on a logarithmic scale: below 0 it is cleared, from 0 on it is suspected, 1 is severe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rollshape.geometry.rules import Finding
from rollshape.geometry.rules.budget import FEW_UPDATES
from rollshape.geometry.rules.window import edge_weight
from rollshape.studies.records import Record
from rollshape.studies.statistics import Floats
from rollshape.studies.verdict import scores

PHASE_BINS = 16  # of the metric reset_phase_entropy


@dataclass(frozen=True)
class Suspicion:
    """One suspect: what was measured, against what, and what to try."""

    rule: str
    evidence: float
    message: str
    fix: str
    numbers: dict[str, Any]


Suspect = Callable[[Record, Sequence[Record]], Suspicion | None]
SUSPECTS: dict[str, tuple[Suspect, str]] = {}


def suspect(rule: str, source: str) -> Callable[[Suspect], Suspect]:
    def register(measure: Suspect) -> Suspect:
        SUSPECTS[rule] = (measure, source)
        return measure

    return register


def ranked(run: Record, others: Sequence[Record]) -> tuple[list[Finding], list[Finding]]:
    """(suspects by evidence, the strongest first; suspects that are cleared). Others: runs of the same task."""
    found = [
        (seen.evidence, _finding(seen, source))
        for measure, source in SUSPECTS.values()
        if (seen := measure(run, others)) is not None
    ]
    found.sort(key=lambda pair: -pair[0])
    return [each for evidence, each in found if evidence >= 0], [each for evidence, each in found if evidence < 0]


def _finding(seen: Suspicion, source: str) -> Finding:
    numbers = seen.numbers | {"evidence": round(seen.evidence, 3)}
    return Finding(seen.rule, "warn" if seen.evidence >= 0 else "info", seen.message, seen.fix, source, numbers)


def evidence(measured: float, notable: float, severe: float) -> float:
    """ln(measured/notable) / ln(severe/notable), within ±3; severe may lie on either side of notable."""
    place = math.log(max(measured, 1e-12) / notable) / math.log(severe / notable)
    return min(3.0, max(-3.0, place))


@suspect("few-updates", "arithmetic; Stable-Baselines3 issues 1625, 766 and 660")
def few_updates(run: Record, others: Sequence[Record]) -> Suspicion | None:
    """Updates made. A better run that was no better after as many updates confirms it, one that was acquits."""
    own = scores(run.rows)
    if not run.rows:
        return None
    made, size = run.rows[-1]["update"], run.plan["rollout_size"]
    place = evidence(made, FEW_UPDATES, FEW_UPDATES / 10)
    message = f"{made:,} updates were made (notable below {FEW_UPDATES})"
    numbers: dict[str, Any] = {"num_updates": made, "threshold": FEW_UPDATES}
    then = _better_runs_at(made, own, others)
    if then is not None:
        end = float(own[-2:].mean())
        place = min(3.0, place + 1) if then <= end + 2 * _noise(own) else place - 1
        message += f"; better runs that made more were at {then:.4g} by then, this one at {end:.4g}"
        numbers |= {"others_then": then, "own_end": end}
    return Suspicion(
        "few-updates", place, message + ".",
        f"total_timesteps {FEW_UPDATES * size:,} would buy {FEW_UPDATES} updates of {size:,} samples; or collect less "
        "before each.", numbers,
    )  # fmt: skip


def _noise(y: Floats) -> float:
    return float(np.std(np.diff(y)) / math.sqrt(2)) if y.size > 2 else 0.0


def _better_runs_at(update: int, own: Floats, others: Sequence[Record]) -> float | None:
    """The median score, at an update, of the runs that made at least half as many more and ended clearly better."""
    found = []
    for other in others:
        theirs = scores(other.rows)
        if min(own.size, theirs.size) < 2 or other.rows[-1]["update"] < 1.5 * update:
            continue
        better = theirs[-2:].mean() - own[-2:].mean() > 3 * max(_noise(own), _noise(theirs))
        seen = [row["eval_return"] for row in other.rows if row["update"] >= update and row["eval_return"] is not None]
        found += seen[:1] if better else []
    return float(np.median(found)) if found else None


@suspect("policy-lag", "Schulman et al. 2017: the ratio is only to be trusted near 1")
def policy_lag(run: Record, _: Sequence[Record]) -> Suspicion | None:
    """How far the policy has moved from the data by the last epoch of an update: KL, ratio ESS, clip fraction.

    What the first epoch does alone is the learning rate's doing and is taken off.
    """
    if run.plan["gradient_steps_per_update"] == 1:
        return None  # the data is the current policy's
    divergence, weight = run.epochs("approx_kl_epochs", -1), run.epochs("ratio_ess_epochs", -1)
    first, clipped = run.epochs("approx_kl_epochs", 0), run.values("clip_fraction")
    if not divergence or not weight or not first or not clipped:
        return None
    kl, early, ess, clip = (float(np.median(values)) for values in (divergence, first, weight, clipped))
    place = max(evidence(kl, 0.05, 0.5), evidence(ess, 0.9, 0.4), evidence(clip, 0.3, 0.7))
    place -= max(0.0, evidence(early, 0.05, 0.5))
    epochs = run.plan["num_epochs"]
    return Suspicion(
        "policy-lag", place,
        f"By the last of {epochs} epochs the policy is KL {kl:.2g} away from its data (notable above 0.05), the ratios "
        f"are worth {ess:.0%} of the samples (below 90 %), and {clip:.0%} of them are clipped (above 30 %).",
        f"Use fewer epochs than {epochs}, or stop them by --target-kl 0.02." if epochs > 1 else
        "Use fewer minibatches, or a lower learning rate.",
        {"approx_kl": kl, "ratio_ess": ess, "clip_fraction": clip, "threshold": {"approx_kl": 0.05, "ratio_ess": 0.9,
                                                                                 "clip_fraction": 0.3}},
    )  # fmt: skip


@suspect(
    "learning-rate", "Hilton et al. 2021 (√ rule for Adam); the KL that PPO implementations steer to, 0.01 to 0.05"
)
def learning_rate(run: Record, others: Sequence[Record]) -> Suspicion | None:
    """√KL for each gradient step of an update: far too large a move, or hardly any."""
    steps, rate = run.plan["gradient_steps_per_update"], run.spec["learning_rate"]
    found = run.epochs("approx_kl_epochs", -1)
    if not found:
        if run.status != "diverged":
            return None
        return Suspicion(
            "learning-rate", 2.0, f"Nothing was finite from the first interval on, at a learning rate of {rate:g}.",
            f"Try {rate / 10:.2g}, and clip the gradient norm at 0.5.", {"learning_rate": rate},
        )  # fmt: skip
    if steps == 1:
        return None
    kl = max(0.0, float(np.max(found[-3:]) if run.status == "diverged" else np.median(found)))
    move = math.sqrt(kl) / steps
    fast, slow = evidence(move, 0.01, 0.03), evidence(kl, 1e-4, 1e-6)
    factor = math.sqrt(run.plan["minibatch_size"] / _tuned_minibatch(run, others))
    numbers = {"approx_kl": kl, "move": move, "learning_rate": rate, "threshold": {"move": 0.01, "approx_kl": 1e-4}}
    if fast >= slow:
        return Suspicion(
            "learning-rate", fast,
            f"A gradient step moves the policy by √KL = {move:.2g} (notable above 0.01) at learning rate {rate:g}.",
            f"Try {rate / 10:.2g}.", numbers,
        )  # fmt: skip
    better = rate * factor if factor > 1.5 else rate * 10
    return Suspicion(
        "learning-rate", slow,
        f"An update moves the policy by KL {kl:.2g} (notable below 1e-4), at a learning rate of {rate:g}.",
        f"Try {better:.2g}" + (", by the √ rule from the smallest minibatch of these runs." if factor > 1.5 else "."),
        numbers,
    )  # fmt: skip


def _tuned_minibatch(run: Record, others: Sequence[Record]) -> int:
    """The smallest minibatch among runs with the same learning rate."""
    same = [other for other in others if other.spec["learning_rate"] == run.spec["learning_rate"]]
    return min(int(each.plan["minibatch_size"]) for each in (run, *same))


@suspect("over-smooth", "McCandlish et al. 2018, clustered by environment")
def over_smooth(run: Record, _: Sequence[Record]) -> Suspicion | None:
    """The minibatch against the noise scale σ²/|G|² of single steps, where a probe has measured it.

    The probe gives the noise scale of whole windows, σ²τ/|G|², and the variance with (total) and without (individual)
    correlation, whose ratio is τ.
    """
    scales = [scale for document in run.probes.values() if (scale := _noise_scale(document)) is not None]
    if not scales:
        return None
    scale, size = float(np.median(scales)), run.plan["minibatch_size"]
    return Suspicion(
        "over-smooth", evidence(size / scale, 4, 32),
        f"A minibatch of {size:,} is {size / scale:.2g} times the noise scale of {scale:,.0f} (notable above 4): more "
        "samples a gradient step hardly make it better.",
        f"Use minibatches of about {max(1, round(scale)):,}: more gradient steps from the same data.",
        {"minibatch_size": size, "noise_scale": scale, "threshold": 4},
    )  # fmt: skip


def _noise_scale(document: dict[str, Any]) -> float | None:
    clustered = (document.get("noise_scale") or {}).get("clustered")
    variance = document.get("variance") or {}
    if not clustered or not variance.get("total") or not variance.get("individual"):
        return None
    return float(clustered * variance["individual"] / variance["total"])


@suspect("contention", "openai/baselines issue 1050; steps/s are measured")
def contention(run: Record, others: Sequence[Record]) -> Suspicion | None:
    """Steps/s against those of runs with fewer environments: more of them should not be slower."""
    own = run.median("sps")
    fewer = [other for other in others if other.plan["num_envs"] < run.plan["num_envs"]]
    speeds = [speed for other in fewer if (speed := other.median("sps"))]
    if not own or not speeds:
        return None
    best = max(speeds)
    return Suspicion(
        "contention", evidence(best / own, 1.5, 6),
        f"{own:,.0f} steps/s with {run.plan['num_envs']:,} environments, {best:,.0f} with fewer: {best / own:.2g} "
        "times as many (notable above 1.5). It costs time, not samples: at equal timesteps look at the others.",
        "Use fewer environments, or longer rollouts with them.",
        {"sps": own, "best_sps": best, "threshold": 1.5},
    )  # fmt: skip


@suspect("short-window", "GAE's own formula; Rudin et al. 2021")
def short_window(run: Record, _: Sequence[Record]) -> Suspicion | None:
    """The weight of V at the window's edge × the share of the returns that V does not explain."""
    if run.plan["algo"] == "reinforce":
        return None
    window, spec = run.plan["gae_window"], run.spec
    weight = edge_weight(window, spec["gamma"], spec["gae_lambda"])
    explained = run.median("explained_variance")
    unexplained = 1.0 if explained is None else 1.0 - min(1.0, max(0.0, explained))
    longer = window
    while edge_weight(longer, spec["gamma"], spec["gae_lambda"]) > weight / 3 and longer < 4096:
        longer *= 2
    numbers = {"edge_weight": weight, "explained_variance": explained, "threshold": 0.35}
    found = [document["bias"]["window"]["relative"] for document in run.probes.values() if document.get("bias")]
    bias = [value for value in found if value is not None]
    numbers |= {"window_bias": float(np.median(bias))} if bias else {}
    return Suspicion(
        "short-window", evidence(weight * unexplained, 0.35, 0.9),
        f"With T = {window:,} V at the window's edge has a weight of {weight:.2f} and leaves {unexplained:.0%} of the "
        f"returns unexplained: {weight * unexplained:.2f} of the advantages rests on its errors (notable above 0.35).",
        f"Try num_steps {longer:,}, with fewer environments at the same rollout size.", numbers,
    )  # fmt: skip


@suspect("weak-critic", "explained variance, as in OpenAI Baselines")
def weak_critic(run: Record, _: Sequence[Record]) -> Suspicion | None:
    """1 − explained variance over the last third: the share of the returns that V does not explain."""
    explained = run.median("explained_variance", slice(2 * len(run.rows) // 3, None))
    if explained is None or run.spec.get("baseline") == "none":
        return None
    return Suspicion(
        "weak-critic", evidence(1 - explained, 0.8, 2.0),
        f"V's explained variance of the returns is {explained:.2f} (notable below 0.2).",
        "More epochs, normalised rewards, or a higher value_coef.", {"explained_variance": explained, "threshold": 0.2},
    )  # fmt: skip


@suspect("synchronised-resets", "“Staggered Environment Resets”, NeurIPS 2025")
def synchronised_resets(run: Record, _: Sequence[Record]) -> Suspicion | None:
    """The entropy of episode phases in a batch, against that of environments spread over their episodes.

    Episodes of L out of H steps fill 16·L/H of the metric's 16 phases: an entropy of ln(16·L/H)/ln 16.
    """
    from rollshape.studies.registered import horizon

    seen, length = run.median("reset_phase_entropy"), run.median("episodic_length")
    limit = horizon(run.spec["env"]) or _told_horizon(run)
    if seen is None or length is None or limit is None or PHASE_BINS * length / limit < 2:
        return None  # episodes too short to have phases
    full = math.log(min(PHASE_BINS, PHASE_BINS * length / limit)) / math.log(PHASE_BINS)
    return Suspicion(
        "synchronised-resets", evidence(seen / full, 0.7, 0.3),
        f"A batch shows {seen / full:.0%} of the phases that spread resets would show (notable below 70 %).",
        "Add --stagger burn-in, or use longer rollouts.",
        {"reset_phase_entropy": seen, "expected": full, "episode_length": length, "threshold": 0.7},
    )  # fmt: skip


def _told_horizon(run: Record) -> int | None:
    lengths = [
        finding["numbers"]["episode_length"]
        for finding in run.plan.get("findings", ())
        if finding["rule"] == "episode-length"
    ]
    return lengths[0] if lengths else None
