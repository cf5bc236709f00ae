"""The three noises of a run's policy gradient, measured by branching its environments from states of its policy.

A state, one of the stationary distribution and each of an environment of its own, comes with a random place in a window
of the run's T steps, as in a rollout. From it, some actions of the policy; from each, some continuations under it.
Every continuation tells two things:

* Â, what the run's own estimator says (GAE, ended at the window's edge, at a time limit, at a termination);
* the return, which no window and no time limit ends: until a termination or, after `horizon` steps, by V there, whose
  weight is γ^horizon. Its mean is Q^π.

Advantages are not normalised, and the run's normalisers are constants.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.distributions import ActionDistribution, sample
from rollshape.agents.networks import ActorCritic
from rollshape.agents.normalizer import Moments, normalize_obs, scale_reward
from rollshape.envs.functional import Episode, FunctionalEnv
from rollshape.geometry.divisors import divisors
from rollshape.gradients import gram
from rollshape.gradients.noises import Noises, noises, true_weights
from rollshape.gradients.traces import policy_traces
from rollshape.probes.stationary import horizons, stationary
from rollshape.training.loop import RunState, Trainer, on_one_device
from rollshape.training.spec import Spec

STATES, ACTIONS, CONTINUATIONS = 1024, 4, 2
TAIL = 0.01  # weight that V may have in a return
BRANCHES = 1 << 13  # environments that are stepped at once


@dataclass(frozen=True, slots=True)
class StepNoises:
    """What one step's gradient is made of; `noises` is None, with a reason, where environments cannot branch."""

    num_states: int
    num_actions: int
    num_continuations: int
    num_steps: int  # T of the windows that the estimator sees
    horizon: int
    tail: float  # γ^horizon × share of the continuations that were still going on: the weight of V in the returns
    noises: Noises | None
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def step_noises(
    trainer: Trainer,
    state: RunState,
    *,
    num_states: int = STATES,
    num_actions: int = ACTIONS,
    num_continuations: int = CONTINUATIONS,
    horizon: int | None = None,
    seed: int = 0,
) -> StepNoises:
    """Of a checkpoint (see `open_run`). `horizon` is by default as long as V weighs more than 1 % behind it."""
    spec, env, steps = trainer.spec, trainer.env, trainer.plan.num_steps
    if not isinstance(env, FunctionalEnv):
        reason = f"{spec.env} runs on the host: its states cannot be branched, so the three noises cannot be told apart"
        return StepNoises(num_states, num_actions, num_continuations, steps, 0, 0.0, None, reason)
    length = max(horizon or _horizon(spec.gamma, env), steps)
    model, moments = on_one_device(state)
    burn, act, place, play = jax.random.split(jax.random.key(seed), 4)
    episodes = stationary(env, trainer.policy, num_states, model, moments, burn, horizons(env))[0]
    observations = jnp.repeat(normalize_obs(moments, episodes.observation)[:, None], num_actions, 1)
    actions = sample(trainer.policy, act, model(observations)[0])
    left = jax.random.randint(place, (num_states,), 1, steps + 1)
    player = partial(
        _played, env, trainer.policy, _estimator(spec, length), num_continuations, model, moments,
        jax.device_put(state.rewards, jax.local_devices()[0]),
    )  # fmt: skip
    chunk = max(d for d in divisors(num_states) if d * num_actions * num_continuations <= max(BRANCHES, d))
    parts = [
        player(
            *(jax.tree.map(lambda x, at=at: x[at : at + chunk], (episodes, actions, left))),
            jax.random.fold_in(play, at),
        )
        for at in range(0, num_states, chunk)
    ]
    estimates, returns, going = (np.concatenate([np.asarray(p[i], np.float64) for p in parts]) for i in range(3))
    if spec.algo == "reinforce" and spec.baseline == "mean":
        estimates -= estimates.mean()
    weights = (jnp.asarray(x, jnp.float32) for x in (true_weights(returns), estimates.mean(2)))
    norms, true_gram, cross_gram = _products(trainer.policy, model, observations, actions, *weights)
    return StepNoises(
        num_states,
        num_actions,
        num_continuations,
        steps,
        length,
        tail=float(spec.gamma**length * going.mean()),
        noises=noises(estimates, returns, norms, true_gram, cross_gram, np.random.default_rng(seed)),
    )


@partial(jax.jit, static_argnums=0)
def _products(
    policy: ActionDistribution, model: ActorCritic, observations: Array, actions: Array, true: Array, told: Array
) -> tuple[Array, Array, Array]:
    """‖ψ‖² [S, A], and the Gram matrices [S, S] of rows by the true weights, and of those with rows by what is told."""
    scores = policy_traces(model, policy, observations, actions)
    rows, others = gram.scaled(scores, true), gram.scaled(scores, told)
    return gram.step_norms(scores), gram.row_gram(rows), gram.row_gram(rows, others)


def _horizon(gamma: float, env: FunctionalEnv) -> int:
    return env.horizon if gamma >= 1 else math.ceil(math.log(TAIL) / math.log(max(gamma, TAIL)))


class _Estimator(NamedTuple):
    gamma: float
    lam: float
    critic: bool  # whether V is a part of it
    horizon: int


def _estimator(spec: Spec, horizon: int) -> _Estimator:
    """REINFORCE is GAE with λ = 1, and without its baseline the same with V = 0."""
    if spec.algo != "reinforce":
        return _Estimator(spec.gamma, spec.gae_lambda, True, horizon)
    return _Estimator(spec.gamma, 1.0, spec.baseline == "value", horizon)


class _Branches(NamedTuple):
    """What is carried along continuations, [B]."""

    step: Array
    state: Any
    action: Array
    value: Array  # V of the state
    counted: Array  # whether the estimator's trace goes on
    going: Array  # whether the episode would, without a time limit
    estimate: Array
    total: Array


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _played(
    env: FunctionalEnv, policy: ActionDistribution, estimator: _Estimator, continuations: int, model: ActorCritic,
    moments: Moments | None, rewards: Moments | None, episodes: Episode, actions: Array, left: Array, key: Array,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Â, return and whether V stands for its rest, each [S, A, C], of episodes [S], actions [S, A], steps left [S].

    Â = Σ_{k<left} (γλ)ᵏ·δ_k up to where the episode ends, δ = r + γ·V(s′) − V(s), and the return Σ γᵏ·r_k.
    """
    gamma, lam, critic, horizon = estimator
    shape = (*actions.shape[:2], continuations)
    count = math.prod(shape)

    def spread(x: Array, axes: int) -> Array:
        x = x.reshape(*x.shape[:axes], *[1] * (3 - axes), *x.shape[axes:])
        return jnp.broadcast_to(x, (*shape, *x.shape[3:])).reshape(count, *x.shape[3:])

    elapsed, limit = spread(episodes.steps, 1), spread(left, 1)
    state = jax.tree.map(lambda x: spread(x, 1), episodes.state)
    value = spread(model.value(normalize_obs(moments, episodes.observation)), 1)

    def step(at: _Branches) -> _Branches:
        act, move = jax.random.split(jax.random.fold_in(key, at.step))
        outcome = jax.vmap(env.step)(jax.random.split(move, count), at.state, env.clip_action(at.action))
        outputs, value = model(normalize_obs(moments, outcome.observation))
        reward = outcome.reward if rewards is None else scale_reward(rewards, outcome.reward)
        error = reward
        if critic:
            error = reward + gamma * jnp.where(outcome.terminated, 0.0, value) - at.value
        expired = elapsed + at.step + 1 >= env.max_steps if env.max_steps is not None else jnp.zeros((), bool)
        return _Branches(
            step=at.step + 1,
            state=outcome.state,
            action=sample(policy, act, outputs),
            value=value,
            counted=at.counted & ~outcome.terminated & ~expired & (at.step + 1 < limit),
            going=at.going & ~outcome.terminated,
            estimate=at.estimate + jnp.where(at.counted, (gamma * lam) ** at.step * error, 0.0),
            total=at.total + jnp.where(at.going, gamma**at.step * reward, 0.0),
        )

    every = jnp.ones(count, bool)
    begin = _Branches(
        jnp.zeros((), jnp.int32), state, spread(actions, 2), value, every, every, jnp.zeros(count), jnp.zeros(count)
    )
    end = jax.lax.while_loop(lambda at: (at.step < horizon) & at.going.any(), step, begin)
    total = end.total + jnp.where(end.going, gamma**end.step * end.value, 0.0)
    return end.estimate.reshape(shape), total.reshape(shape), end.going.reshape(shape)
