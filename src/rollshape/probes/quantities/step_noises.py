"""The three sources of error in a step's gradient, measured by branching the environments of a run.

Every state is drawn from the stationary distribution, in its own environment, together with a random position in a
window of the run's T steps. From it several actions of the policy are tried, and from each several continuations. A
continuation gives two numbers:

* Â, the estimate of the run's own estimator (GAE, which ends at the window's edge, a time limit or a termination);
* the return, which neither the window nor a time limit ends: it runs until a termination or, after `horizon` steps,
  ends with V, whose weight is γ^horizon. Its mean is Q^π.

Advantages are not normalized, and the run's normalizers are constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from rollshape.agents.distributions import sample
from rollshape.agents.normalizer import Moments, scale_reward
from rollshape.agents.policy import Policy
from rollshape.envs.functional import Episode, FunctionalEnv
from rollshape.geometry.divisors import divisors
from rollshape.gradients import gram
from rollshape.gradients.noises import Noises, noises, true_weights
from rollshape.gradients.scores import policy_rows, policy_score_norms
from rollshape.probes.documents import read_fields
from rollshape.probes.plotting import BLUE, GRAY, GREEN, ORANGE, bar_heights, probe_figure
from rollshape.probes.quantities.quantity import Quantity
from rollshape.probes.stationary import stationary_states
from rollshape.probes.subject import Checkpoint
from rollshape.probes.text import CI, TextTable, format_cells, format_estimate
from rollshape.quick_jit import quick_jit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rollshape.probes.context import ProbeContext
    from rollshape.probes.result import Probe

STATES, ACTIONS, CONTINUATIONS = 512, 4, 2
TAIL = 0.01  # largest weight of V in a return
BRANCHES = 1 << 13  # environments stepped at once


@dataclass(frozen=True, slots=True)
class StepNoises:
    """Error of a step's gradient by source; `noises` is None, with a reason, where environments cannot branch."""

    num_states: int
    num_actions: int
    num_continuations: int
    num_steps: int  # T of the estimator's windows
    horizon: int
    tail: float  # γ^horizon × share of unfinished continuations: the weight of V in the returns
    noises: Noises | None
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> StepNoises:
        parts = document["noises"]
        split = None if parts is None else Noises(**{f.name: read_fields(parts[f.name]) for f in fields(Noises)})
        return cls(**{**document, "noises": split})


def measure(context: ProbeContext) -> StepNoises:
    context.on_progress("errors of single steps")
    return measure_step_noises(context.checkpoint, seed=context.seed, settled=context.settled)


def measure_step_noises(
    checkpoint: Checkpoint,
    *,
    num_states: int = STATES,
    num_actions: int = ACTIONS,
    num_continuations: int = CONTINUATIONS,
    horizon: int | None = None,
    seed: int = 0,
    settled: Episode | None = None,
) -> StepNoises:
    """Measure a checkpoint, by default from fresh states of the stationary distribution, and with a `horizon` that is
    long enough that V has a weight of at most 1 %."""
    env, policy, estimator, steps = checkpoint.env, checkpoint.policy, checkpoint.estimator, checkpoint.plan.num_steps
    if not isinstance(env, FunctionalEnv):
        reason = f"{checkpoint.spec.env} runs on the host: its states cannot be branched"
        return StepNoises(num_states, num_actions, num_continuations, steps, 0, 0.0, None, reason)
    if estimator.depends_on_past:
        reason = "the advantage of a step depends on earlier rewards, which branching does not vary"
        return StepNoises(num_states, num_actions, num_continuations, steps, 0, 0.0, None, reason)
    length = max(horizon or _default_horizon(estimator.gamma, env), steps)
    burn_key, branch_key, play_key = (jax.random.fold_in(jax.random.key(seed), i) for i in range(3))
    episodes = settled or stationary_states(env, policy, num_states, burn_key, env.horizon)
    observations, actions, steps_left = _branch(policy, episodes.observation, num_actions, steps, branch_key)
    returns_of = _Returns(estimator.gamma, estimator.gae_lambda, estimator.has_critic, length)
    play = partial(_play, env, returns_of, num_continuations, policy, checkpoint.reward_moments)
    chunk = max(d for d in divisors(num_states) if d * num_actions * num_continuations <= max(BRANCHES, d))
    parts = []
    for first in range(0, num_states, chunk):
        columns = (episodes, actions, steps_left)
        some = jax.tree.map(lambda x, first=first: np.asarray(x)[first : first + chunk], columns)
        parts.append(play(some[0], some[1], some[2], jax.random.fold_in(play_key, first)))
    estimates, returns, unfinished = (np.concatenate([np.asarray(p[i], np.float64) for p in parts]) for i in range(3))
    if estimator.centers_advantages:
        estimates -= estimates.mean()
    weights = (np.asarray(x, np.float32) for x in (true_weights(returns), estimates.mean(2)))
    norms, true_gram, cross_gram = _products(policy, observations, actions, *weights)
    return StepNoises(
        num_states,
        num_actions,
        num_continuations,
        steps,
        length,
        tail=float(estimator.gamma**length * unfinished.mean()),
        noises=noises(estimates, returns, norms, true_gram, cross_gram, np.random.default_rng(seed)),
    )


@partial(quick_jit, jit=eqx.filter_jit)
def _branch(
    policy: Policy, observation: Array, num_actions: int, num_steps: int, key: Array
) -> tuple[Array, Array, Array]:
    """Return observations as the network reads them and actions, [S, A, …], and how many steps are left of a window of
    T at a random position, [S]."""
    action_key, position_key = jax.random.split(key)
    observations = jnp.repeat(policy.normalize(observation)[:, None], num_actions, 1)
    actions = sample(policy.distribution, action_key, policy.network(observations)[0])
    return observations, actions, jax.random.randint(position_key, (len(observation),), 1, num_steps + 1)


@partial(quick_jit, jit=eqx.filter_jit)
def _products(
    policy: Policy, observations: Array, actions: Array, true: ArrayLike, estimated: ArrayLike
) -> tuple[Array, Array, Array]:
    """Return |ψ|² [S, A], and the Gram matrices [S, S] of rows by the true weights with themselves and with rows by the
    estimated ones."""
    network, distribution = policy.network, policy.distribution
    weights = (jnp.asarray(true), jnp.asarray(estimated))
    rows, others = (policy_rows(network, distribution, observations, actions, w) for w in weights)
    norms = policy_score_norms(network, distribution, observations, actions)
    return norms, gram.row_gram(rows), gram.row_gram(rows, others)


def _default_horizon(gamma: float, env: FunctionalEnv) -> int:
    return env.horizon if gamma >= 1 else math.ceil(math.log(TAIL) / math.log(max(gamma, TAIL)))


class _Returns(NamedTuple):
    """How estimates and returns are computed; without a critic, V = 0 in the estimate."""

    gamma: float
    gae_lambda: float
    has_critic: bool
    horizon: int


class _Branches(NamedTuple):
    """What is carried along continuations, [B]."""

    step: Array
    state: Any
    action: Array
    value: Array  # V of the state
    in_trace: Array  # whether the estimator's trace continues
    is_alive: Array  # whether the episode continues, without a time limit
    estimate: Array
    total: Array


@partial(quick_jit, jit=eqx.filter_jit)
def _play(
    env: FunctionalEnv, returns: _Returns, continuations: int, policy: Policy, reward_moments: Moments | None,
    episodes: Episode, actions: Array, steps_left: Array, key: Array,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return Â, the return, and whether V replaces its rest, each [S, A, C], of episodes [S] and actions [S, A].

    Â = Σ_{k<left} (γλ)ᵏ·δ_k until the episode ends, δ = r + γ·V(s′) − V(s); the return is Σ γᵏ·r_k.
    """
    gamma, lam, has_critic, horizon = returns
    shape = (*actions.shape[:2], continuations)
    count = math.prod(shape)

    def broadcast(x: Array, axes: int) -> Array:
        x = x.reshape(*x.shape[:axes], *[1] * (3 - axes), *x.shape[axes:])
        return jnp.broadcast_to(x, (*shape, *x.shape[3:])).reshape(count, *x.shape[3:])

    elapsed, limit = broadcast(episodes.steps, 1), broadcast(steps_left, 1)
    state = jax.tree.map(lambda x: broadcast(x, 1), episodes.state)
    value = broadcast(policy.value(episodes.observation), 1)

    def step(now: _Branches) -> _Branches:
        action_key, env_key = jax.random.split(jax.random.fold_in(key, now.step))
        outcome = jax.vmap(env.step)(jax.random.split(env_key, count), now.state, env.clip_action(now.action))
        outputs, value = policy(outcome.observation)
        reward = outcome.reward if reward_moments is None else scale_reward(reward_moments, outcome.reward)
        error = reward
        if has_critic:
            error = reward + gamma * jnp.where(outcome.terminated, 0.0, value) - now.value
        expired = elapsed + now.step + 1 >= env.max_steps if env.max_steps is not None else jnp.zeros((), bool)
        return _Branches(
            step=now.step + 1,
            state=outcome.state,
            action=sample(policy.distribution, action_key, outputs),
            value=value,
            in_trace=now.in_trace & ~outcome.terminated & ~expired & (now.step + 1 < limit),
            is_alive=now.is_alive & ~outcome.terminated,
            estimate=now.estimate + jnp.where(now.in_trace, (gamma * lam) ** now.step * error, 0.0),
            total=now.total + jnp.where(now.is_alive, gamma**now.step * reward, 0.0),
        )

    all_alive = jnp.ones(count, bool)
    first = _Branches(
        jnp.zeros((), jnp.int32), state, broadcast(actions, 2), value, all_alive, all_alive, jnp.zeros(count),
        jnp.zeros(count),
    )  # fmt: skip
    last = jax.lax.while_loop(lambda now: (now.step < horizon) & now.is_alive.any(), step, first)
    total = last.total + jnp.where(last.is_alive, gamma**last.step * last.value, 0.0)
    return last.estimate.reshape(shape), total.reshape(shape), last.is_alive.reshape(shape)


def to_dict(probe: Probe) -> dict[str, Any]:
    return {"noises": None if probe.noises is None else probe.noises.to_dict()}


def from_dict(document: Mapping[str, Any]) -> StepNoises | None:
    return None if document["noises"] is None else StepNoises.from_dict(document["noises"])


def sentences(probe: Probe) -> list[str]:
    if probe.noises is None:
        return []
    split = probe.noises.noises
    if split is None:
        return [f"Sources of error of a single step: not measured, {probe.noises.reason}."]
    return [
        "Squared error of a single step's gradient: "
        f"{format_estimate(split.sampling)} from which states and actions were sampled, "
        f"{format_estimate(split.trajectory)} from random continuations of the trajectory, and "
        f"{format_estimate(split.credit)} from errors of the advantage estimator (credit assignment)."
    ]


def tables(probe: Probe) -> list[TextTable]:
    if probe.noises is None or probe.noises.noises is None:
        return []
    split = probe.noises.noises
    rows = [
        ("sampling of states and actions", *format_cells(split.sampling)),
        ("random continuation of the trajectory", *format_cells(split.trajectory)),
        ("credit assignment by the estimator", *format_cells(split.credit)),
        ("total", *format_cells(split.total)),
    ]
    return [TextTable("Squared error of a single step's gradient", ("", "value", CI), rows)]


def figures(probe: Probe) -> dict[str, Figure]:
    if probe.noises is None or probe.noises.noises is None:
        return {}
    split = probe.noises.noises
    figure = probe_figure(
        probe, "Squared error of a single step's gradient", "95 % intervals over branched states", (6.0, 4.5)
    )
    axis = figure.subplots()
    axis.bar(
        ("total", "sampling", "trajectory", "credit\nassignment"),
        **bar_heights([split.total, split.sampling, split.trajectory, split.credit]),
        color=[GRAY, BLUE, ORANGE, GREEN],
    )
    axis.axhline(0, color="black", linewidth=0.6)
    axis.set_ylabel("squared error E‖g − G*‖²")
    return {"noises": figure}


STEP_NOISES = Quantity["ProbeContext", "Probe"](
    name="noises", part="noises", measure=measure, to_dict=to_dict, from_dict=from_dict, sentences=sentences,
    tables=tables, figures=figures,
)  # fmt: skip
