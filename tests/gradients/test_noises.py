"""The three noises against sums over a chain, where A^π, the estimator's bias and its spread are all known."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest
from known_answers import GAMMA, Chain, delayed

from rollshape.envs import exact
from rollshape.errors import RequestError
from rollshape.gradients import gram
from rollshape.gradients.intervals import Estimate
from rollshape.gradients.noises import Noises, noises, true_weights

STATES, ACTIONS, BRANCHES = 3000, 4, 3


def exact_noises(chain: Chain) -> tuple[float, float, float]:
    """For Â = r + γV(s′) − V(s) with a wrong V: its mean and variance given (s, a) are sums over s′."""
    alive = ~chain.mdp.terminal
    target = chain.mdp.rewards + GAMMA * (alive * chain.critic) - chain.critic[:, None, None]
    mean = np.einsum("sat,sat->sa", chain.mdp.transitions, target)
    spread = np.einsum("sat,sat->sa", chain.mdp.transitions, target**2) - mean**2
    weights = chain.weights[:, None] * chain.policy
    squares = (chain.scores**2).sum(-1)
    true, off = chain.advantage, mean - chain.advantage
    gradient, lost = (np.einsum("sa,sa,sap->p", weights, x, chain.scores) for x in (true, off))
    sampling = (weights * squares * true**2).sum() - gradient @ gradient
    trajectory = (weights * squares * spread).sum()
    credit = (weights * squares * off**2).sum() + 2 * ((weights * squares * true * off).sum() - gradient @ lost)
    return float(sampling), float(trajectory), float(credit)


@cache
def branched() -> Noises:
    """States from the chain's distribution, actions from the policy, continuations from the dynamics."""
    chain, rng = delayed(), np.random.default_rng(0)
    states = rng.choice(chain.mdp.num_states, size=STATES, p=chain.weights)
    actions = (rng.random((STATES, ACTIONS, 1)) >= chain.policy.cumsum(1)[states][:, None]).sum(-1)
    moves = chain.mdp.transitions[states[:, None], actions].cumsum(-1)[:, :, None]
    led = (rng.random((STATES, ACTIONS, BRANCHES, 1)) >= moves).sum(-1)
    here = (states[:, None, None], actions[:, :, None], led)
    rewards = chain.mdp.rewards[here]
    estimates = rewards + GAMMA * chain.critic[led] - chain.critic[states][:, None, None]
    expected = exact.action_values(chain.mdp, chain.policy, GAMMA)[states[:, None], actions]
    returns = (
        expected[..., None] + rng.normal(size=rewards.shape) * 0.3
    )  # unbiased, whatever the rest of an episode adds
    errors = np.eye(chain.policy.shape[1])[actions] - chain.policy[states][:, None]
    inputs = np.broadcast_to(np.eye(chain.mdp.num_states)[states][:, None], (STATES, ACTIONS, chain.mdp.num_states))
    scores = [gram.Trace(jnp.asarray(inputs, jnp.float32), jnp.asarray(errors, jnp.float32), bias=False)]
    true = gram.scale_traces(scores, jnp.asarray(true_weights(returns), jnp.float32))
    seen = gram.scale_traces(scores, jnp.asarray(estimates.mean(2), jnp.float32))
    return noises(estimates, returns, (errors**2).sum(-1), gram.row_gram(true), gram.row_gram(true, seen), rng)


def near(estimate: Estimate, truth: float) -> bool:
    half = (estimate.high - estimate.low) / 2
    return estimate.low - half <= truth <= estimate.high + half


def test_the_three_noises_are_the_exact_ones() -> None:
    found, truth = branched(), exact_noises(delayed())
    assert near(found.sampling, truth[0])
    assert near(found.trajectory, truth[1])
    assert near(found.credit, truth[2])
    assert near(found.total, sum(truth))
    parts = (found.sampling, found.trajectory, found.credit)
    assert all(abs(t) > (e.high - e.low) / 2 for t, e in zip(truth, parts, strict=True))  # each one is seen


def test_they_add_up() -> None:
    found = branched()
    parts = found.sampling.value + found.trajectory.value + found.credit.value
    assert parts == pytest.approx(found.total.value)


def test_the_exact_terms_are_the_error_of_a_step() -> None:
    """E‖Âψ − G*‖² by its definition, over all (s, a, s′)."""
    chain = delayed()
    target = chain.mdp.rewards + GAMMA * chain.critic - chain.critic[:, None, None]
    weights = chain.weights[:, None, None] * chain.policy[..., None] * chain.mdp.transitions
    gaps = target[..., None] * chain.scores[:, :, None] - chain.gradient
    assert (weights * (gaps**2).sum(-1)).sum() == pytest.approx(sum(exact_noises(chain)))


def test_too_few_branches_are_refused() -> None:
    data, grams = np.zeros((40, 2, 2)), np.zeros((40, 40))
    with pytest.raises(RequestError):
        noises(data, data, np.zeros((40, 2)), grams, grams, np.random.default_rng(0))
