"""Checks of scales: rewards, observations, the value loss beside the policy's, the discount beside the episode."""

from __future__ import annotations

from collections.abc import Sequence

from rollshape.studies.records import RunRecord
from rollshape.studies.remedies import Remedy
from rollshape.studies.suspects.base import Missing, Suspect, check, evidence, missing
from rollshape.studies.suspects.window import episode_limit

NOTABLE_REWARD, NOTABLE_RETURN = 100.0, 3000.0
NOTABLE_OBSERVATION, NOTABLE_OBSERVATION_RATIO = 15.0, 2000.0
NOTABLE_POLICY_SHARE = 1e-8  # of the squared gradient
NOTABLE_HORIZONS = 25.0  # episode length over 1/(1 − γ)


@check("reward-scale", "Engstrom et al. 2020: reward scaling; van Hasselt et al. 2016")
def reward_scale(run: RunRecord, _: Sequence[RunRecord]) -> Suspect | Missing | None:
    """Measure the rewards that the learner receives, or the spread of its value targets."""
    reward, deviation = run.median("reward_rms"), run.median("return_std")
    if deviation is None and (loss := run.median("value_loss")) is not None:
        deviation = max(0.0, loss) ** 0.5  # the critic's error: at most the spread of its targets, once it learns
    if reward is None and deviation is None:
        return Missing(("reward_rms", "return_std"))
    strengths = [] if reward is None else [evidence(reward, NOTABLE_REWARD, 1e4)]
    strengths += [] if deviation is None else [evidence(deviation, NOTABLE_RETURN, 1e5)]
    parts = [] if reward is None else [f"rewards of {reward:.2g} (notable above {NOTABLE_REWARD:g})"]
    parts += [] if deviation is None else [f"returns that vary by {deviation:.2g} (above {NOTABLE_RETURN:g})"]
    return Suspect(
        max(strengths),
        f"The critic has to fit {' and '.join(parts)}; networks and learning rates are made for values of order 1.",
        Remedy({"normalize_rewards": True}),
        {
            "reward_rms": reward,
            "return_std": deviation,
            "threshold": {"reward_rms": NOTABLE_REWARD, "return_std": NOTABLE_RETURN},
        },
    )


@check("observation-scale", "Engstrom et al. 2020: observation normalization; Andrychowicz et al. 2021")
def observation_scale(run: RunRecord, _: Sequence[RunRecord]) -> Suspect | Missing | None:
    """Measure the observations as the network receives them."""
    if (absent := missing(run, "observation_scale")) is not None:
        return absent
    scale, ratio = run.median("observation_scale"), run.median("observation_scale_ratio")
    if scale is None:
        return Missing(("observation_scale",))
    strength = evidence(scale, NOTABLE_OBSERVATION, 500)
    if ratio is not None:
        strength = max(strength, evidence(ratio, NOTABLE_OBSERVATION_RATIO, 1e5))
    times = "" if ratio is None else f", {ratio:.2g} times the smallest (above {NOTABLE_OBSERVATION_RATIO:g})"
    return Suspect(
        strength,
        f"The largest feature of the observations has a root mean square of {scale:.2g} (notable above "
        f"{NOTABLE_OBSERVATION:g}){times}.",
        Remedy({"normalize_observations": True}),
        {
            "observation_scale": scale,
            "observation_scale_ratio": ratio,
            "threshold": {
                "observation_scale": NOTABLE_OBSERVATION,
                "observation_scale_ratio": NOTABLE_OBSERVATION_RATIO,
            },
        },
    )


@check(
    "value-dominates",
    "clipping by the global norm scales both gradients; shared layers add them",
    follows={"reward-scale": 1.0},
)
def value_dominates(run: RunRecord, _: Sequence[RunRecord]) -> Suspect | Missing | None:
    """Measure the share of the value loss in the squared gradient of one optimizer."""
    if (absent := missing(run, "value_gradient_share")) is not None:
        return absent
    share = run.median("value_gradient_share")
    if share is None:
        return Missing(("value_gradient_share",))
    rest = max(1e-12, 1.0 - share)
    coefficient = run.spec.value_coef if run.knows("value_coef") else None
    changes = {} if coefficient is None else {"value_coef": 0.5 if coefficient > 1 else coefficient / 10}
    advice = "" if changes else "Lower the coefficient of the value loss."
    return Suspect(
        evidence(rest, NOTABLE_POLICY_SHARE, 1e-11),
        f"The policy's share of the squared gradient is {rest:.1g} (notable below {NOTABLE_POLICY_SHARE:g}); the rest "
        "is that of the value loss.",
        Remedy(changes, advice),
        {"value_gradient_share": share, "value_coef": coefficient, "threshold": NOTABLE_POLICY_SHARE},
    )


@check("discount-horizon", "1/(1 − γ) steps is how far ahead a discounted return looks")
def discount_horizon(run: RunRecord, _: Sequence[RunRecord]) -> Suspect | Missing | None:
    """Compare the length of an episode with the horizon 1/(1 − γ) of the discount."""
    if not run.knows("gamma"):
        return Missing(("gamma",))
    length = episode_limit(run)
    if length is None:
        return Missing(("episodic_length",))
    gamma = run.spec.gamma
    if gamma >= 1:
        return None
    horizon = 1 / (1 - gamma)
    better = 0.99 if length >= 100 else 0.95
    return Suspect(
        evidence(length / horizon, NOTABLE_HORIZONS, 4 * NOTABLE_HORIZONS),
        f"γ = {gamma:g} looks {horizon:.2g} steps ahead, but an episode may last {length:,.0f} steps, "
        f"{length / horizon:.2g} times as long (notable above {NOTABLE_HORIZONS:g}).",
        Remedy({"gamma": better} if gamma < better else {}),
        {"gamma": gamma, "horizon": horizon, "episode_length": length, "threshold": NOTABLE_HORIZONS},
    )
