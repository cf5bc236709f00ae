"""Rules about the minibatch: its size, its number, and what it is made of."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rollshape.geometry.minibatch import automatic_minibatch, shapes_dividing, wanted_minibatches
from rollshape.geometry.rules.base import Observation, Severity, rule

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan
    from rollshape.geometry.request import Request

SMALL, LARGE = 32, 256
FEWEST, MOST = 4, 32
PER_ACTION_DIM = 10
SEVERAL_ENVS = 4

_FOLKLORE = "folklore, carried over from supervised learning; not a measurement"


def _severity(plan: Plan) -> Severity:
    """A plan that is automatic does not nag: ranges are for information unless the user chose the value."""
    return "warn" if plan.minibatch_source == "user" else "info"


@rule("minibatch-range", _FOLKLORE)
def minibatch_range(plan: Plan, _: Request) -> Observation | None:
    """A minibatch of 32 to 256 samples is a starting range.

    Below 32 a gradient step is mostly noise and fills no device; above 256 a step costs more samples
    than it may need. The range comes from supervised learning. Massively parallel simulators (Isaac
    Lab, Brax) train well with minibatches of thousands, so a value outside is worth a second look and
    not a mistake. What decides is the gradient noise scale, which `rollshape probe` measures.

    Info on automatic plans, a warning on a value of your own.
    """
    size = plan.minibatch_size
    if plan.algo != "ppo" or SMALL <= size <= LARGE:
        return None
    low = size < SMALL
    return Observation(
        _severity(plan),
        f"minibatch_size {size:,} is {'below' if low else 'above'} the usual starting range {SMALL}–{LARGE}.",
        f"Try {'a larger' if low else 'more, smaller'} minibatch{'' if low else 'es'}, or measure the noise scale.",
        {"minibatch_size": size, "low": SMALL, "high": LARGE},
    )


@rule("minibatches-per-epoch", _FOLKLORE + "; CleanRL, Isaac Lab and Brax ship 4 to 32")
def minibatches_per_epoch(plan: Plan, _: Request) -> Observation | None:
    """4 to 32 minibatches an epoch; at least 4 to 10 is a good balance.

    One minibatch makes PPO take few, large, clipped steps; very many make the last step of an epoch
    act on a policy far from the one that collected the data (watch approx_kl and the ratio's effective
    sample size per epoch).

    Info on automatic plans, a warning on a value of your own.
    """
    count = plan.num_minibatches
    if plan.algo != "ppo" or FEWEST <= count <= MOST:
        return None
    wanted = min(max(count, FEWEST), MOST)
    return Observation(
        _severity(plan),
        f"{count:,} minibatch{'es' if count > 1 else ''} an epoch; usual are {FEWEST} to {MOST}.",
        f"minibatch_size near {max(1, plan.rollout_size // wanted):,} would give {wanted}.",
        {"num_minibatches": count, "low": FEWEST, "high": MOST},
    )


@rule("minibatch-action-dim", _FOLKLORE)
def minibatch_action_dim(plan: Plan, request: Request) -> Observation | None:
    """A minibatch holds at least 10 samples for each action dimension.

    Fewer, and the gradient of a many-armed policy is dominated by the noise of single actions.
    """
    if request.action_dim is None or plan.minibatch_size >= PER_ACTION_DIM * request.action_dim:
        return None
    least = PER_ACTION_DIM * request.action_dim
    return Observation(
        "warn",
        f"minibatch_size {plan.minibatch_size:,} is below {PER_ACTION_DIM} × action_dim = {least:,}.",
        f"Use a minibatch of at least {least:,}.",
        {"minibatch_size": plan.minibatch_size, "action_dim": request.action_dim, "least": least},
    )


def expected_envs(num_envs: int, num_steps: int, minibatch_size: int) -> float:
    """E[environments in a shuffled minibatch] = N·(1 − C(NT−T, M)/C(NT, M)).

    Each environment is missed with the probability that M draws without replacement avoid its T samples.
    """
    rollout = num_envs * num_steps
    if minibatch_size > rollout - num_steps:
        return float(num_envs)
    log_missed = (
        math.lgamma(rollout - num_steps + 1)
        - math.lgamma(rollout - num_steps - minibatch_size + 1)
        - math.lgamma(rollout + 1)
        + math.lgamma(rollout - minibatch_size + 1)
    )
    return num_envs * -math.expm1(min(0.0, log_missed))


@rule("minibatch-envs", "Andrychowicz et al. 2020 (shuffle single transitions); correlation along time")
def minibatch_envs(plan: Plan, _: Request) -> Observation | None:
    """A minibatch draws on several environments.

    Steps of one environment are correlated, so a minibatch from one or two of them is worth far fewer
    independent samples than it counts. With transitions shuffled, the expected number of environments
    in a minibatch of M is N·(1 − C(NT−T, M)/C(NT, M)).
    """
    seen = expected_envs(plan.num_envs, plan.num_steps, plan.minibatch_size)
    if plan.replay is not None or seen >= SEVERAL_ENVS:
        return None
    return Observation(
        "warn" if plan.minibatch_source == "user" or plan.num_envs == 1 else "info",
        f"A minibatch draws on {seen:.3g} of {plan.num_envs:,} environments: its samples are correlated.",
        f"Use at least {SEVERAL_ENVS} environments with shorter rollouts." if plan.num_envs < SEVERAL_ENVS
        else "Use larger minibatches.",
        {"expected_envs": seen, "num_envs": plan.num_envs, "least": SEVERAL_ENVS},
    )  # fmt: skip


@rule("awkward-rollout", "arithmetic")
def awkward_rollout(plan: Plan, _: Request) -> Observation | None:
    """A rollout with no good divisor cannot be cut into equal minibatches.

    A prime rollout_size has only 1 and itself; a prime times very little is hardly better. Equal
    minibatches of a useful size then do not exist, and the automatic plan trains on the whole rollout in
    one step. Changing num_envs or num_steps by a little gives a rollout that splits well; the finding
    lists the nearest ones.
    """
    if plan.minibatch_source != "auto" or plan.num_minibatches > 1:
        return None
    wanted = wanted_minibatches(plan.rollout_size)
    if wanted == 1:
        return None
    near = shapes_dividing(plan.num_envs, plan.num_steps, wanted)
    shapes = ", ".join(f"{shape['num_envs']:,} × {shape['num_steps']:,}" for shape in near)
    return Observation(
        "warn",
        f"rollout_size {plan.rollout_size:,} has no good divisor; minibatch is {plan.minibatch_reason}.",
        f"Nearest shapes that split well: {shapes}.",
        {"rollout_size": plan.rollout_size, "shapes": near},
    )


@rule("remainder", "Stable-Baselines3 issues 265, 325 and 440: ignored remainders end in NaN")
def remainder(plan: Plan, _: Request) -> Observation | None:
    """Samples that fill no minibatch are left out of an epoch (`--on-remainder warn`).

    Rollshape reshuffles each epoch and leaves out the samples that come last in the shuffle, so no
    sample is favoured; a short last minibatch would instead take a full-sized step on a handful of
    samples, and normalising the advantages of a single sample divides by zero. Other libraries do
    either: see `rollshape dialects`.
    """
    if not plan.dropped:
        return None
    rest, rollout, epochs = plan.dropped, plan.rollout_size, plan.num_epochs
    return Observation(
        "warn",
        f"{plan.minibatch_size:,} does not divide {rollout:,}: each epoch trains on {rollout - rest:,} samples and "
        f"leaves out {rest:,}, those that its shuffle puts last, other ones each epoch. Over {epochs} epochs a "
        f"sample is used {plan.sample_reuse:.4g} times on average and never with probability "
        f"{(rest / rollout) ** epochs:.2g}.",
        "--on-remainder fix repairs it.",
        {"dropped": rest, "rollout_size": rollout, "sample_reuse": plan.sample_reuse},
    )


@rule(
    "lr-minibatch",
    "Hilton et al. 2021 (√ rule for Adam); Beukman et al. 2026 (keep both when the rollout grows)",
)
def lr_minibatch(plan: Plan, request: Request) -> Observation | None:
    """The learning rate belongs to the minibatch: M × c asks for Adam's rate × √c.

    When num_envs grows and the minibatch grows with it (num_minibatches fixed, or the automatic rule),
    the noise of a gradient step falls by c and Adam's step size may grow by √c. When only the rollout
    grows and minibatches are added, the minibatch is unchanged and so is the learning rate; of the two
    this is the safer way to scale. KL-adaptive learning rates (rl_games, RSL-RL) find their own level,
    the faster the more minibatches there are.

    Give `--learning-rate` and `--tuned-minibatch-size` to have the number worked out.
    """
    size, tuned = plan.minibatch_size, request.tuned_minibatch_size
    if plan.replay is not None:
        return None
    if tuned is None:
        if plan.minibatch_source != "auto" or plan.num_minibatches == 1:
            return None
        doubled = automatic_minibatch(2 * plan.rollout_size).size / size
        if doubled == 1:
            return None
        return Observation(
            "info",
            f"The automatic minibatch follows num_envs: twice the environments make it {doubled:.3g} times as large.",
            f"Scale Adam's learning rate by √{doubled:.3g} then, or fix minibatch_size and leave the rate alone.",
            {"minibatch_size": size, "growth": doubled},
        )
    if tuned == size:
        return None
    factor = math.sqrt(size / tuned)
    rate = request.learning_rate
    advice = f"Multiply the learning rate by √({size:,}/{tuned:,}) = {factor:.3g}"
    return Observation(
        "warn",
        f"The learning rate was tuned at minibatch_size {tuned:,}; this plan uses {size:,}.",
        f"{advice}: {rate:g} → {rate * factor:.3g}." if rate else f"{advice}.",
        {"factor": factor, "learning_rate": rate * factor if rate else None, "tuned_minibatch_size": tuned},
    )
