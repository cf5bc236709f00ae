"""Checks of the rollout window and the critic: short windows, a weak critic, synchronized resets."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rollshape.geometry.algorithms import RULES as ALGORITHM_RULES
from rollshape.geometry.rules.window import edge_weight
from rollshape.studies.gymnasium_registry import max_episode_steps
from rollshape.studies.records import RunRecord
from rollshape.studies.remedies import Remedy
from rollshape.studies.suspects.base import Missing, Suspect, check, evidence, missing

NOTABLE_EDGE = 0.5
NOTABLE_EXPLAINED = -0.05
NOTABLE_PHASES = 0.7
NUM_PHASES = 16  # of the metric reset_phase_entropy
LONGEST_WINDOW = 4096
FIXED_LENGTH = 0.95  # share of the longest episodes, from which on all end at the time limit
MAX_SYMPTOM = 0.3  # evidence of what other suspects cause as well


@check(
    "short-window",
    "GAE's own formula; Rudin et al. 2021",
    follows={"learning-rate": 1.0, "few-updates": 0.5, "over-smooth": 0.5, "reward-scale": 1.0, "value-dominates": 1.0},
)
def short_window(run: RunRecord, _: Sequence[RunRecord]) -> Suspect | Missing | None:
    """Measure the weight of V at the window's edge × the share of the returns that V does not explain."""
    if not ALGORITHM_RULES[run.spec.algo].uses_gae:
        return None
    if not run.trainer.is_ours and (absent := missing(run, "explained_variance", settings=("gamma", "gae_lambda"))):
        return absent
    window, gamma, gae_lambda = run.plan.gae_window, run.spec.gamma, run.spec.gae_lambda
    weight = edge_weight(window, gamma, gae_lambda)
    explained = run.median("explained_variance")
    unexplained = 1.0 if explained is None else 1.0 - min(1.0, max(0.0, explained))
    longer = window
    while edge_weight(longer, gamma, gae_lambda) > weight / 3 and longer < LONGEST_WINDOW:
        longer *= 2
    numbers = {"edge_weight": weight, "explained_variance": explained, "threshold": NOTABLE_EDGE}
    relative = [probe.bias["window"].relative for probe in run.measured_probes()]
    biases = [bias.value for bias in relative if bias is not None and math.isfinite(bias.value)]
    numbers |= {"window_bias": float(np.median(biases))} if biases else {}
    return Suspect(
        evidence(weight * unexplained, NOTABLE_EDGE, 0.9),
        f"With T = {window:,} the value at the window's edge has a weight of {weight:.2f} in the advantages, and the "
        f"critic leaves {unexplained:.0%} of the returns unexplained: product {weight * unexplained:.2f} (notable "
        f"above {NOTABLE_EDGE}).",
        Remedy({"num_steps": longer}, "With fewer environments the rollout size stays the same."),
        numbers,
    )


@check("weak-critic", "explained variance, as in OpenAI Baselines")
def weak_critic(run: RunRecord, _: Sequence[RunRecord]) -> Suspect | Missing | None:
    """Measure 1 − explained variance over the last third of the run."""
    explained = run.late_median("explained_variance", parts=3)
    if run.spec.baseline == "none":
        return None
    if explained is None:
        return Missing(("explained_variance",))
    return Suspect(
        min(MAX_SYMPTOM, evidence(1 - explained, 1 - NOTABLE_EXPLAINED, 2.0)),
        f"The critic's explained variance is {explained:.2f} (notable below {NOTABLE_EXPLAINED}).",
        Remedy(
            {}, "Often a symptom of the other suspects. Else use more epochs, normalize rewards, or raise value_coef."
        ),
        {"explained_variance": explained, "threshold": NOTABLE_EXPLAINED},
    )


@check("synchronized-resets", "“Staggered Environment Resets”, NeurIPS 2025")
def synchronized_resets(run: RunRecord, _: Sequence[RunRecord]) -> Suspect | Missing | None:
    """Compare the entropy of episode phases in a batch with that of staggered environments.

    Episodes of L out of H steps fill 16·L/H of the metric's 16 phases: an entropy of ln(16·L/H)/ln 16.
    """
    if (absent := missing(run, "reset_phase_entropy", "episodic_length")) is not None:
        return absent
    entropy, length, limit = run.median("reset_phase_entropy"), run.median("episodic_length"), episode_limit(run)
    if entropy is None or length is None or limit is None or NUM_PHASES * length / limit < 2:
        return None  # episodes too short to have phases
    if run.plan.num_envs == 1:
        return None  # nothing to synchronize with
    if not (max_episode_steps(run.spec.env) or _planned_episode_length(run)) and length < FIXED_LENGTH * limit:
        return None  # the time limit is unknown, and episodes end by themselves
    expected = math.log(min(NUM_PHASES, NUM_PHASES * length / limit)) / math.log(NUM_PHASES)
    changes = {"stagger": "burn-in"} if run.trainer.is_ours else {"num_steps": _next_power_of_two(length)}
    return Suspect(
        evidence(entropy / expected, NOTABLE_PHASES, 0.3),
        f"The entropy of episode phases in a batch is {entropy / expected:.0%} of that with staggered resets (notable "
        f"below {NOTABLE_PHASES:.0%}).",
        Remedy(changes, "Or start every environment at another step of an episode."),
        {
            "reset_phase_entropy": entropy,
            "expected": expected,
            "episode_length": length,
            "threshold": NOTABLE_PHASES,
        },
    )


def _next_power_of_two(size: float) -> int:
    return 1 << math.ceil(math.log2(max(1.0, size)))


def episode_limit(run: RunRecord) -> float | None:
    """Return how long an episode may last: registered, planned, or the longest mean of the log."""
    limit = max_episode_steps(run.spec.env) or _planned_episode_length(run)
    return float(limit) if limit else max(run.values("episodic_length"), default=None)


def _planned_episode_length(run: RunRecord) -> int | None:
    """Return the episode length that the plan's findings mention."""
    lengths = [finding.numbers["episode_length"] for finding in run.plan.findings if finding.rule == "episode-length"]
    return lengths[0] if lengths else None
