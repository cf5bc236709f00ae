"""Rules about the window of T steps: how much of an episode it shows, and how far it leans on the critic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rollshape.geometry.rules.base import Observation, rule

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan
    from rollshape.geometry.request import Request

HEAVY_EDGE, NOTABLE_EDGE = 0.8, 0.5
REINFORCE_LEAST = 1_000
CONTINUOUS_LOW, CONTINUOUS_HIGH = 2_000, 10_000
LONGEST_WINDOW = 4096
SHORT_WINDOW = 10  # episodes at least this many windows long show one phase at a time


def edge_weight(num_steps: int, gamma: float, gae_lambda: float) -> float:
    """Mean coefficient of V at the window's edge: γ(1−qᵀ)/(T(1−q)), q = γλ, no episode ends inside.

    The advantage k steps before the edge holds (γλ)^(k−1)·γ·V(edge); this is its mean over k = 1…T.
    """
    q = gamma * gae_lambda
    if q == 1.0:
        return gamma
    return gamma * -math.expm1(num_steps * math.log(q)) / (num_steps * (1 - q)) if q > 0 else gamma / num_steps


@rule("edge-weight", "GAE's own formula; Rudin et al. 2021: below about 25 steps legged robots learned worse")
def edge_weight_rule(plan: Plan, request: Request) -> Observation | None:
    """A short window leans on the critic: the mean coefficient of V at its edge is γ(1−qᵀ)/(T(1−q)), q = γλ.

    At γ = .99 and λ = .95 it is .81 for T = 8, .65 for 16, .45 for 32, .25 for 64, .13 for 128. What the
    critic gets wrong enters the gradient with this weight, and values travel only T steps an update.
    Above .8 it is a warning if you chose num_steps, else information; above .5 information.
    """
    if plan.algo == "reinforce" or plan.replay is not None:
        return None
    weight = edge_weight(plan.gae_window, request.gamma, request.gae_lambda)
    if weight <= NOTABLE_EDGE:
        return None
    t = plan.gae_window
    while edge_weight(t, request.gamma, request.gae_lambda) > NOTABLE_EDGE and t < LONGEST_WINDOW:
        t *= 2
    lighter = edge_weight(t, request.gamma, request.gae_lambda)
    asked = "num_steps" not in plan.chosen and plan.algo == "ppo"
    return Observation(
        "warn" if weight > HEAVY_EDGE and asked else "info",
        f"With T = {plan.gae_window:,} GAE gives V at the window's edge a mean weight of {weight:.2f}: "
        "the gradient leans on the critic.",
        f"T = {t:,} would bring it to {lighter:.2f}."
        if lighter <= NOTABLE_EDGE
        else "At this γλ only windows that span whole episodes help.",
        {"edge_weight": weight, "gae_window": plan.gae_window, "gamma": request.gamma, "lambda": request.gae_lambda},
    )


@rule("episode-length", "“Staggered Environment Resets”, NeurIPS 2025; arithmetic")
def episode_length(plan: Plan, request: Request) -> Observation | None:
    """The window against the episode: a short window sees one phase of it at a time.

    Environments that start together and run episodes of H steps show update j only the steps
    (j−1)T … jT−1 of an episode: a cycle of H/gcd(H, T) updates, and no number of environments averages
    it away. Stagger the resets (`train --stagger burn-in`). REINFORCE needs whole episodes: a window
    shorter than H cuts off the return.
    """
    length, t = request.episode_length, plan.num_steps
    if length is None or plan.replay is not None:
        return None
    numbers = {"episode_length": length, "num_steps": t, "cycle": length // math.gcd(length, t)}
    if plan.algo == "reinforce" and t < length:
        return Observation(
            "warn",
            f"REINFORCE windows of {t:,} steps cut episodes of {length:,}: returns are incomplete.",
            f"Use num_steps ≥ {length:,}.",
            numbers,
        )
    if length < SHORT_WINDOW * t:
        return None
    return Observation(
        "info",
        f"An episode of {length:,} steps spans {length / t:.3g} windows: environments reset together show one phase "
        f"of it at a time, repeating every {numbers['cycle']:,} updates.",
        "Stagger the resets, or use longer windows.",
        numbers,
    )


@rule("reinforce-samples", "folklore: Monte-Carlo returns are noisy")
def reinforce_samples(plan: Plan, _: Request) -> Observation | None:
    """REINFORCE wants at least 1,000 samples an update.

    Its returns carry the noise of whole episodes. A baseline and reward-to-go cut variance more cheaply
    than a larger rollout does; use them first.
    """
    if plan.algo != "reinforce" or plan.rollout_size >= REINFORCE_LEAST:
        return None
    return Observation(
        "warn",
        f"REINFORCE on {plan.rollout_size:,} samples an update; usual are at least {REINFORCE_LEAST:,}.",
        f"num_envs {-(-REINFORCE_LEAST // plan.num_steps):,} at this num_steps reaches it.",
        {"rollout_size": plan.rollout_size, "least": REINFORCE_LEAST},
    )


@rule("continuous-samples", "folklore; SB3, CleanRL and Dopamine collect 2,048 on MuJoCo")
def continuous_samples(plan: Plan, request: Request) -> Observation | None:
    """Continuous control usually collects 2,000 to 10,000 samples an update.

    Simulators on a GPU go far beyond with success, so more is only worth a note.
    """
    size = plan.rollout_size
    if request.action_kind != "continuous" or plan.replay is not None or CONTINUOUS_LOW <= size <= CONTINUOUS_HIGH:
        return None
    low = size < CONTINUOUS_LOW
    return Observation(
        "warn" if low and not plan.chosen else "info",
        f"Continuous control on {size:,} samples an update; usual are {CONTINUOUS_LOW:,} to {CONTINUOUS_HIGH:,}.",
        f"num_steps {max(1, -(-CONTINUOUS_LOW // plan.num_envs)):,} at this num_envs would reach it." if low
        else "More updates for the same budget may learn faster.",
        {"rollout_size": size, "low": CONTINUOUS_LOW, "high": CONTINUOUS_HIGH},
    )  # fmt: skip
