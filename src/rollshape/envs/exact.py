"""Exact values, state distribution and policy gradient of a tabular MDP, by linear algebra in float64.

Every function takes the policy as probabilities π[s, a].
"""

from __future__ import annotations

from typing import cast

import numpy as np

from rollshape.envs.tabular import Floats, TabularMDP


def state_transitions(mdp: TabularMDP, policy: Floats) -> Floats:
    """P_π[s, s′] = Σ_a π(a|s) P(s′|s, a)."""
    return cast(Floats, np.einsum("sa,sat->st", policy, mdp.transitions))


def action_values(mdp: TabularMDP, policy: Floats, gamma: float) -> Floats:
    """Q^π[s, a]; a terminal state is worth nothing, and a time limit does not end anything."""
    rewards = np.einsum("sat,sat->sa", mdp.transitions, mdp.rewards)
    return cast(Floats, rewards + gamma * mdp.transitions @ values(mdp, policy, gamma))


def values(mdp: TabularMDP, policy: Floats, gamma: float) -> Floats:
    """V^π[s] = r_π + γ P_π V^π, with V = 0 where the episode has ended."""
    alive = ~mdp.terminal
    going_on = state_transitions(mdp, policy) * alive[:, None] * alive[None, :]
    rewards = np.einsum("sa,sat,sat->s", policy, mdp.transitions, mdp.rewards) * alive
    return cast(Floats, np.linalg.solve(np.eye(mdp.num_states) - gamma * going_on, rewards))


def advantages(mdp: TabularMDP, policy: Floats, gamma: float) -> Floats:
    """A^π[s, a] = Q^π[s, a] − V^π[s]."""
    return action_values(mdp, policy, gamma) - values(mdp, policy, gamma)[:, None]


def state_distribution(mdp: TabularMDP, policy: Floats) -> Floats:
    """Long-run fraction of steps taken from each state, when ended or truncated episodes start again.

    By renewal: the expected visits within an episode, normalised. Episodes that never end and are not truncated give
    the stationary distribution of the chain.
    """
    alive = ~mdp.terminal
    going_on = state_transitions(mdp, policy) * alive[:, None] * alive[None, :]
    visits: Floats
    if mdp.max_steps is not None:
        visits, now = np.zeros(mdp.num_states), mdp.start * alive
        for _ in range(mdp.max_steps):
            visits += now
            now = now @ going_on
    elif mdp.terminal.any():
        visits = cast(Floats, np.linalg.solve(np.eye(mdp.num_states) - going_on.T, mdp.start * alive))
    else:
        visits = _stationary(going_on)
    return cast(Floats, visits / visits.sum())


def _stationary(chain: Floats) -> Floats:
    """d = d·P, Σd = 1, as a least-squares problem (the chain has one recurrent class)."""
    states = chain.shape[0]
    system = np.vstack([chain.T - np.eye(states), np.ones(states)])
    solution = np.linalg.lstsq(system, np.append(np.zeros(states), 1.0), rcond=None)[0]
    return cast(Floats, np.clip(solution, 0.0, None))


def discounted_visits(mdp: TabularMDP, policy: Floats, gamma: float) -> Floats:
    """Σ_t γᵗ P(s_t = s) from the start: with these weights the policy gradient is that of the discounted return."""
    alive = ~mdp.terminal
    going_on = state_transitions(mdp, policy) * alive[:, None] * alive[None, :]
    return cast(Floats, np.linalg.solve(np.eye(mdp.num_states) - gamma * going_on.T, mdp.start * alive))


def policy_gradient(weights: Floats, policy: Floats, scores: Floats, advantage: Floats) -> Floats:
    """Σ_s w(s) Σ_a π(a|s) ∇log π(a|s) A(s, a), for scores ∇log π of shape [S, A, P].

    With w the state distribution it is the on-policy gradient that PPO's batches estimate.
    """
    return cast(Floats, np.einsum("s,sa,sap,sa->p", weights, policy, scores, advantage))
