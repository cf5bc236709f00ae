"""Scores of steps, ∇log π(a|s) and ∇V(s), of any network with the interface of `agents.policy.Policy`.

A network that `traces` supports is traced layer by layer. Any other falls back to `autodiff`, where the gradient of a
step is kept whole: as the trace of one layer that has only a bias, so that everything in `gram` and `windows` applies
to it. That takes P numbers per step instead of the widths of the layers. Arrays are [N, T, …].
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.distributions import ActionDistribution
from rollshape.gradients import autodiff, gram
from rollshape.gradients.gram import Trace
from rollshape.gradients.traces import policy_traces, supports, value_traces


def policy_scores(
    network: Any, distribution: ActionDistribution, observations: Array, actions: Array
) -> tuple[Trace, ...]:
    """Return ∇log π(a|s) of every step."""
    if supports(network):
        return policy_traces(network, distribution, observations, actions)
    parameters, loss = _log_prob_loss(network, distribution)
    return (_bias_trace(_step_gradients(loss, parameters, (observations, actions))),)


def value_scores(network: Any, observations: Array) -> tuple[Trace, ...]:
    """Return ∇V(s) of every step."""
    if supports(network):
        return value_traces(network, observations)
    parameters, static = eqx.partition(network, eqx.is_inexact_array)

    def value(parameters: Any, observation: Array) -> Array:
        values: Array = eqx.combine(parameters, static).value(observation[None])
        return values[0]

    return (_bias_trace(_step_gradients(value, parameters, observations)),)


def policy_rows(
    network: Any, distribution: ActionDistribution, observations: Array, actions: Array, weights: Array
) -> tuple[Trace, ...]:
    """Return traces whose window means are those of the steps' scores times weights [N, T].

    The fallback computes one gradient per window and keeps no gradient of a step.
    """
    if supports(network):
        return gram.scale_traces(policy_traces(network, distribution, observations, actions), weights)
    parameters, log_prob = _log_prob_loss(network, distribution)

    def weighted(parameters: Any, step: tuple[Array, Array, Array]) -> Array:
        return step[2] * log_prob(parameters, step[:2])

    return (_bias_trace(autodiff.rows(weighted, parameters, (observations, actions, weights))[:, None]),)


def policy_score_norms(network: Any, distribution: ActionDistribution, observations: Array, actions: Array) -> Array:
    """Return |∇log π(a|s)|² of every step, [N, T]; the fallback holds the gradients of one environment at a time."""
    if supports(network):
        return gram.step_norms(policy_traces(network, distribution, observations, actions))
    parameters, loss = _log_prob_loss(network, distribution)

    def norms(steps: tuple[Array, Array]) -> Array:
        return (autodiff.step_gradients(loss, parameters, steps) ** 2).sum(-1)

    result: Array = jax.lax.map(norms, (observations, actions))
    return result


def num_parameters(network: Any) -> int:
    """Return the number of trainable parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)))


def _log_prob_loss(network: Any, distribution: ActionDistribution) -> tuple[Any, autodiff.Loss]:
    """Return (parameters, log π of one step as a function of them); other leaves, such as activations, are fixed."""
    parameters, static = eqx.partition(network, eqx.is_inexact_array)

    def log_prob(parameters: Any, step: tuple[Array, Array]) -> Array:
        observation, action = step
        outputs, _ = eqx.combine(parameters, static)(observation[None])
        return distribution.log_prob(outputs, action[None])[0]

    return parameters, log_prob


def _step_gradients(loss: autodiff.Loss, parameters: Any, steps: Any) -> Array:
    """Return the gradients of all steps, [N, T, …] → [N, T, P]."""
    return jax.vmap(lambda window: autodiff.step_gradients(loss, parameters, window))(steps)


def _bias_trace(gradients: Array) -> Trace:
    """Return gradients [N, T, P] as the trace of a layer that has only a bias."""
    return Trace(jnp.zeros((*gradients.shape[:-1], 0)), gradients)
