"""Rules about the window of T steps: how much of an episode it covers, and how much it depends on the critic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rollshape.geometry.algorithms import RULES
from rollshape.geometry.rules.base import RuleResult, rule

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan
    from rollshape.geometry.request import Request

HIGH_EDGE_WEIGHT, NOTABLE_EDGE_WEIGHT = 0.8, 0.5
REINFORCE_LEAST = 1_000
CONTINUOUS_LOW, CONTINUOUS_HIGH = 2_000, 10_000
LONGEST_WINDOW = 4096
MANY_WINDOWS = 10  # windows per episode from which on a rollout covers only one phase of the episode


def edge_weight(num_steps: int, gamma: float, gae_lambda: float) -> float:
    """Return the mean coefficient of V at the window's edge: γ(1−qᵀ)/(T(1−q)), q = γλ, if no episode ends inside.

    The advantage k steps before the edge contains (γλ)^(k−1)·γ·V(edge); this is its mean over k = 1…T.
    """
    q = gamma * gae_lambda
    if q == 1.0:
        return gamma
    return gamma * -math.expm1(num_steps * math.log(q)) / (num_steps * (1 - q)) if q > 0 else gamma / num_steps


@rule("edge-weight", "the formula of GAE; Rudin et al. 2021: below about 25 steps legged robots learned worse")
def edge_weight_rule(plan: Plan, request: Request) -> RuleResult | None:
    """With a short window, advantages depend on the critic: V at its edge has the mean weight γ(1−qᵀ)/(T(1−q)), q = γλ.

    For γ = .99 and λ = .95 the weight is .81 for T = 8, .65 for 16, .45 for 32, .25 for 64 and .13 for 128. Errors of
    the critic enter the gradient with this weight, and values propagate only T steps per update.
    Above .8 there is a warning if num_steps was requested, otherwise an info; above .5 an info.
    """
    rules = RULES[plan.algo]
    if not rules.uses_gae:
        return None
    weight = edge_weight(plan.gae_window, request.gamma, request.gae_lambda)
    if weight <= NOTABLE_EDGE_WEIGHT:
        return None
    t = plan.gae_window
    while edge_weight(t, request.gamma, request.gae_lambda) > NOTABLE_EDGE_WEIGHT and t < LONGEST_WINDOW:
        t *= 2
    lower_weight = edge_weight(t, request.gamma, request.gae_lambda)
    requested = "num_steps" not in plan.chosen and rules.uses_minibatches
    return RuleResult(
        "warn" if weight > HIGH_EDGE_WEIGHT and requested else "info",
        f"With T = {plan.gae_window:,}, V at the window's edge has a mean weight of {weight:.2f} in GAE: "
        "the gradient depends strongly on the critic.",
        f"T = {t:,} would reduce it to {lower_weight:.2f}."
        if lower_weight <= NOTABLE_EDGE_WEIGHT
        else "With this γλ, only windows that contain whole episodes help.",
        {"edge_weight": weight, "gae_window": plan.gae_window, "gamma": request.gamma, "lambda": request.gae_lambda},
    )


@rule("episode-length", "“Staggered Environment Resets”, NeurIPS 2025; arithmetic")
def episode_length(plan: Plan, request: Request) -> RuleResult | None:
    """A window that is much shorter than the episode covers one phase of it at a time.

    If all environments start together and episodes have H steps, update j only contains the steps (j−1)T … jT−1 of an
    episode. This repeats every H/gcd(H, T) updates, and more environments do not average it out. Stagger the resets
    (`train --stagger burn-in`). REINFORCE needs whole episodes: a window shorter than H truncates the return.
    """
    length, t = request.episode_length, plan.num_steps
    if length is None or plan.replay is not None:
        return None
    numbers = {"episode_length": length, "num_steps": t, "cycle": length // math.gcd(length, t)}
    if RULES[plan.algo].uses_episode_returns and t < length:
        return RuleResult(
            "warn",
            f"{plan.algo.upper()} needs whole episodes, but windows of {t:,} steps truncate episodes of {length:,}: "
            "returns are incomplete.",
            f"Use num_steps {length:,} or more.",
            numbers,
        )
    if length < MANY_WINDOWS * t:
        return None
    return RuleResult(
        "info",
        f"An episode of {length:,} steps spans {length / t:.3g} windows: if all environments reset together, each "
        f"update covers only one phase of the episode, repeating every {numbers['cycle']:,} updates.",
        "Stagger the resets (train --stagger burn-in), or use longer windows.",
        numbers,
    )


@rule("reinforce-samples", "rule of thumb: Monte Carlo returns have a high variance")
def reinforce_samples(plan: Plan, _: Request) -> RuleResult | None:
    """REINFORCE should use at least 1,000 samples per update.

    Its returns contain the noise of whole episodes. A baseline and rewards-to-go reduce the variance at a lower cost
    than a larger rollout does; use them first.
    """
    if not RULES[plan.algo].uses_episode_returns or plan.rollout_size >= REINFORCE_LEAST:
        return None
    return RuleResult(
        "warn",
        f"{plan.algo.upper()} uses {plan.rollout_size:,} samples per update; {REINFORCE_LEAST:,} or more are usual.",
        f"With this num_steps, use num_envs {-(-REINFORCE_LEAST // plan.num_steps):,} or more.",
        {"rollout_size": plan.rollout_size, "least": REINFORCE_LEAST},
    )


@rule("continuous-samples", "rule of thumb; SB3, CleanRL and Dopamine collect 2,048 on MuJoCo")
def continuous_samples(plan: Plan, request: Request) -> RuleResult | None:
    """Continuous control usually collects 2,000 to 10,000 samples per update.

    GPU simulators successfully use far more, so a larger rollout is only reported as info.
    """
    size = plan.rollout_size
    if request.action_kind != "continuous" or plan.replay is not None or CONTINUOUS_LOW <= size <= CONTINUOUS_HIGH:
        return None
    low = size < CONTINUOUS_LOW
    return RuleResult(
        "warn" if low and not plan.chosen else "info",
        f"{size:,} samples per update; {CONTINUOUS_LOW:,} to {CONTINUOUS_HIGH:,} are usual for continuous control.",
        f"With this num_envs, use num_steps {max(1, -(-CONTINUOUS_LOW // plan.num_envs)):,} or more." if low
        else "A smaller rollout gives more updates with the same budget and may learn faster.",
        {"rollout_size": size, "low": CONTINUOUS_LOW, "high": CONTINUOUS_HIGH},
    )  # fmt: skip
