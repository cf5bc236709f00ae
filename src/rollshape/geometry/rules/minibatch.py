"""Rules about minibatches: their size, their number, and which samples they contain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rollshape.geometry.algorithms import RULES
from rollshape.geometry.grain import Grain
from rollshape.geometry.minibatch import automatic_minibatch, nearest_shapes, target_num_minibatches
from rollshape.geometry.rules.base import RuleResult, Severity, rule

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan
    from rollshape.geometry.request import Request

SMALL, LARGE = 32, 256
FEWEST, MOST = 4, 32
PER_ACTION_DIM = 10
SEVERAL_ENVS = 4

_RULE_OF_THUMB = "rule of thumb from supervised learning; not a measurement"


def _severity(plan: Plan) -> Severity:
    """Return "warn" for a requested minibatch size; an automatic one outside a usual range is only an info."""
    return "warn" if plan.minibatch_source == "user" else "info"


@rule("minibatch-range", _RULE_OF_THUMB)
def minibatch_range(plan: Plan, _: Request) -> RuleResult | None:
    """A minibatch of 32 to 256 samples is a common starting point.

    Below 32, a gradient step is mostly noise and does not fill a device; above 256, a step may use more samples than
    it needs. The range comes from supervised learning. Massively parallel simulators (Isaac Lab, Brax) train well with
    minibatches of thousands of samples, so a value outside the range is not necessarily wrong. The gradient noise
    scale decides; `rollshape probe` measures it.

    Info for automatic sizes, a warning for requested ones.
    """
    size = plan.minibatch_size
    if not RULES[plan.algo].uses_minibatches or SMALL <= size <= LARGE:
        return None
    low = size < SMALL
    return RuleResult(
        _severity(plan),
        f"minibatch_size {size:,} is {'below' if low else 'above'} the usual starting range {SMALL}–{LARGE}.",
        f"Try {'a larger minibatch' if low else 'more, smaller minibatches'}, or measure the noise scale "
        "(rollshape probe).",
        {"minibatch_size": size, "low": SMALL, "high": LARGE},
    )


@rule("minibatches-per-epoch", _RULE_OF_THUMB + "; CleanRL, Isaac Lab and Brax use 4 to 32")
def minibatches_per_epoch(plan: Plan, _: Request) -> RuleResult | None:
    """4 to 32 minibatches per epoch are usual; 4 to 10 are a good start.

    With one minibatch PPO takes few, large, clipped steps. With very many, the last steps of an epoch train on data of
    a policy that is far from the current one (check approx_kl and the effective sample size of the ratios per epoch).

    Info for automatic sizes, a warning for requested ones.
    """
    count = plan.num_minibatches
    if not RULES[plan.algo].uses_minibatches or FEWEST <= count <= MOST:
        return None
    target = min(max(count, FEWEST), MOST)
    return RuleResult(
        _severity(plan),
        f"{count:,} minibatch{'es' if count > 1 else ''} per epoch; {FEWEST} to {MOST} are usual.",
        f"A minibatch_size of about {max(1, plan.rollout_size // target):,} would give {target}.",
        {"num_minibatches": count, "low": FEWEST, "high": MOST},
    )


@rule("minibatch-action-dim", _RULE_OF_THUMB)
def minibatch_action_dim(plan: Plan, request: Request) -> RuleResult | None:
    """A minibatch should contain at least 10 samples per action dimension.

    With fewer, the noise of single actions dominates the gradient.
    """
    if request.action_dim is None or plan.minibatch_size >= PER_ACTION_DIM * request.action_dim:
        return None
    least = PER_ACTION_DIM * request.action_dim
    return RuleResult(
        "warn",
        f"minibatch_size {plan.minibatch_size:,} is below {PER_ACTION_DIM} × action_dim = {least:,}.",
        f"Use a minibatch_size of at least {least:,}.",
        {"minibatch_size": plan.minibatch_size, "action_dim": request.action_dim, "least": least},
    )


def expected_envs(num_envs: int, num_steps: int, minibatch_size: int) -> float:
    """Return E[environments in a shuffled minibatch] = N·(1 − C(NT−T, M)/C(NT, M)).

    An environment is missing if M samples without replacement avoid its T steps.
    """
    rollout = num_envs * num_steps
    if minibatch_size > rollout - num_steps:
        return float(num_envs)
    log_missing = (
        math.lgamma(rollout - num_steps + 1)
        - math.lgamma(rollout - num_steps - minibatch_size + 1)
        - math.lgamma(rollout + 1)
        + math.lgamma(rollout - minibatch_size + 1)
    )
    return num_envs * -math.expm1(min(0.0, log_missing))


@rule("minibatch-envs", "Andrychowicz et al. 2020 (shuffle single transitions); correlation over time")
def minibatch_envs(plan: Plan, _: Request) -> RuleResult | None:
    """A minibatch should contain samples of several environments.

    Steps of one environment are correlated, so a minibatch from one or two environments has a much smaller effective
    sample size. If transitions are shuffled, the expected number of environments in a minibatch of M samples is
    N·(1 − C(NT−T, M)/C(NT, M)).
    """
    length = plan.seq_length or 1  # whole sequences are drawn, of all agents
    expected = expected_envs(plan.num_envs, plan.num_steps * plan.num_agents // length, plan.minibatch_size // length)
    if plan.replay is not None or expected >= SEVERAL_ENVS:
        return None
    return RuleResult(
        "warn" if plan.minibatch_source == "user" or plan.num_envs == 1 else "info",
        f"A minibatch contains samples of only {expected:.3g} of {plan.num_envs:,} environments: they are correlated.",
        f"Use at least {SEVERAL_ENVS} environments with shorter rollouts." if plan.num_envs < SEVERAL_ENVS
        else "Use larger minibatches.",
        {"expected_envs": expected, "num_envs": plan.num_envs, "least": SEVERAL_ENVS},
    )  # fmt: skip


@rule("awkward-rollout", "arithmetic")
def awkward_rollout(plan: Plan, _: Request) -> RuleResult | None:
    """A rollout size without suitable divisors cannot be split into equal minibatches.

    A prime rollout_size is only divisible by 1 and itself; a prime times a small factor is hardly better. The automatic
    plan then trains on the whole rollout in one step. A small change of num_envs or num_steps gives a rollout that can
    be split; the finding lists the nearest shapes.
    """
    if plan.minibatch_source != "auto" or plan.num_minibatches > 1 or not RULES[plan.algo].uses_minibatches:
        return None
    target = target_num_minibatches(plan.rollout_size)
    if target == 1:
        return None
    grain = Grain(plan.world_size, plan.seq_length or 1, plan.num_agents)
    factor = target * grain.minibatch_unit(plan.num_steps)
    envs_step, steps_step = grain.envs_step(factor, plan.num_steps), grain.steps_step(factor, plan.num_envs)
    near = nearest_shapes(plan.num_envs, plan.num_steps, factor, envs_step, steps_step)
    shapes = ", ".join(f"{shape['num_envs']:,} × {shape['num_steps']:,}" for shape in near)
    return RuleResult(
        "warn",
        f"rollout_size {plan.rollout_size:,} has no suitable divisor; minibatch: {plan.minibatch_reason}.",
        f"Nearest shapes that can be split: {shapes}.",
        {"rollout_size": plan.rollout_size, "shapes": near},
    )


@rule("remainder", "Stable-Baselines3 issues 265, 325 and 440: ignored remainders end in NaN")
def remainder(plan: Plan, _: Request) -> RuleResult | None:
    """With `--on-remainder warn`, the samples that fill no minibatch are omitted from the epoch.

    Rollshape reshuffles in each epoch and omits the last samples of the shuffle, so that every sample is equally
    likely to be used. A short last minibatch would instead take a full step on a few samples, and normalizing the
    advantages of a single sample divides by zero. Other libraries do either: see `rollshape dialects`.
    """
    if not plan.dropped:
        return None
    rest, rollout, epochs = plan.dropped, plan.rollout_size, plan.num_epochs
    return RuleResult(
        "warn",
        f"{plan.minibatch_size:,} does not divide {rollout:,}: each epoch trains on {rollout - rest:,} samples and "
        f"omits {rest:,}, chosen at random. Over {epochs} epochs a sample is used {plan.sample_reuse:.4g} times on "
        f"average, and never with probability {(rest / rollout) ** epochs:.2g}.",
        "Use --on-remainder fix to change the sizes instead.",
        {"dropped": rest, "rollout_size": rollout, "sample_reuse": plan.sample_reuse},
    )


@rule(
    "lr-minibatch",
    "Hilton et al. 2021 (√ rule for Adam); Beukman et al. 2026 (keep both when the rollout grows)",
)
def lr_minibatch(plan: Plan, request: Request) -> RuleResult | None:
    """The learning rate depends on the minibatch size: for M × c multiply Adam's learning rate by √c.

    If num_envs grows and the minibatch grows with it (fixed num_minibatches, or the automatic size), the variance of
    the gradient falls by c and Adam's learning rate can grow by √c. If only the rollout grows and there are more
    minibatches of the same size, keep the learning rate; this is the safer way to scale. KL-adaptive learning rates
    (rl_games, RSL-RL) adjust themselves, faster with more minibatches.

    Give `--learning-rate` and `--tuned-minibatch-size` to compute the new learning rate.
    """
    size, tuned = plan.minibatch_size, request.tuned_minibatch_size
    if plan.replay is not None:
        return None
    if tuned is None:
        if plan.minibatch_source != "auto" or plan.num_minibatches == 1:
            return None
        unit = plan.world_size * (plan.seq_length or 1)
        growth = automatic_minibatch(2 * plan.rollout_size, unit).size / size
        if growth == 1:
            return None
        return RuleResult(
            "info",
            f"The automatic minibatch size grows with num_envs: by a factor of {growth:.3g} if num_envs doubles.",
            f"Multiply Adam's learning rate by √{growth:.3g} in that case, or set minibatch_size and keep the rate.",
            {"minibatch_size": size, "growth": growth},
        )
    if tuned == size:
        return None
    factor = math.sqrt(size / tuned)
    rate = request.learning_rate
    advice = f"Multiply the learning rate by √({size:,}/{tuned:,}) = {factor:.3g}"
    return RuleResult(
        "warn",
        f"The learning rate was tuned for minibatch_size {tuned:,}; this plan uses {size:,}.",
        f"{advice}: {rate:g} → {rate * factor:.3g}." if rate else f"{advice}.",
        {"factor": factor, "learning_rate": rate * factor if rate else None, "tuned_minibatch_size": tuned},
    )
