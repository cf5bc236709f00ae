"""Exact values, state distribution and policy gradient of a tabular MDP, by linear algebra in float64.

All functions take the policy as probabilities π[s, a].
"""

from __future__ import annotations

from typing import cast

import numpy as np

from rollshape.envs.tabular import Floats, TabularMDP


def state_transitions(mdp: TabularMDP, policy: Floats) -> Floats:
    """Return P_π[s, s′] = Σ_a π(a|s) P(s′|s, a)."""
    return cast(Floats, np.einsum("sa,sat->st", policy, mdp.transitions))


def action_values(mdp: TabularMDP, policy: Floats, gamma: float) -> Floats:
    """Return Q^π[s, a]; terminal states have value 0, and time limits are ignored."""
    rewards = np.einsum("sat,sat->sa", mdp.transitions, mdp.rewards)
    return cast(Floats, rewards + gamma * mdp.transitions @ values(mdp, policy, gamma))


def values(mdp: TabularMDP, policy: Floats, gamma: float) -> Floats:
    """Return V^π[s] = r_π + γ P_π V^π, with V = 0 in terminal states."""
    is_alive = ~mdp.terminal
    continuing = state_transitions(mdp, policy) * is_alive[:, None] * is_alive[None, :]
    rewards = np.einsum("sa,sat,sat->s", policy, mdp.transitions, mdp.rewards) * is_alive
    return cast(Floats, np.linalg.solve(np.eye(mdp.num_states) - gamma * continuing, rewards))


def advantages(mdp: TabularMDP, policy: Floats, gamma: float) -> Floats:
    """Return A^π[s, a] = Q^π[s, a] − V^π[s]."""
    return action_values(mdp, policy, gamma) - values(mdp, policy, gamma)[:, None]


def state_distribution(mdp: TabularMDP, policy: Floats) -> Floats:
    """Return the long-run fraction of steps in each state, if terminated or truncated episodes are restarted.

    By renewal theory these are the normalized expected visits per episode. If episodes never end, it is the stationary
    distribution of the chain.
    """
    is_alive = ~mdp.terminal
    continuing = state_transitions(mdp, policy) * is_alive[:, None] * is_alive[None, :]
    visits: Floats
    if mdp.max_steps is not None:
        visits, now = np.zeros(mdp.num_states), mdp.start * is_alive
        for _ in range(mdp.max_steps):
            visits += now
            now = now @ continuing
    elif mdp.terminal.any():
        visits = cast(Floats, np.linalg.solve(np.eye(mdp.num_states) - continuing.T, mdp.start * is_alive))
    else:
        visits = _stationary(continuing)
    return cast(Floats, visits / visits.sum())


def _stationary(chain: Floats) -> Floats:
    """Solve d = d·P, Σd = 1 as a least-squares problem (the chain has one recurrent class)."""
    states = chain.shape[0]
    system = np.vstack([chain.T - np.eye(states), np.ones(states)])
    solution = np.linalg.lstsq(system, np.append(np.zeros(states), 1.0), rcond=None)[0]
    return cast(Floats, np.clip(solution, 0.0, None))


def discounted_visits(mdp: TabularMDP, policy: Floats, gamma: float) -> Floats:
    """Return Σ_t γᵗ P(s_t = s): with these weights, `policy_gradient` is that of the discounted return."""
    is_alive = ~mdp.terminal
    continuing = state_transitions(mdp, policy) * is_alive[:, None] * is_alive[None, :]
    return cast(Floats, np.linalg.solve(np.eye(mdp.num_states) - gamma * continuing.T, mdp.start * is_alive))


def policy_gradient(weights: Floats, policy: Floats, scores: Floats, advantage: Floats) -> Floats:
    """Return Σ_s w(s) Σ_a π(a|s) ∇log π(a|s) A(s, a), for scores ∇log π of shape [S, A, P].

    If w is the state distribution, it is the on-policy gradient that PPO estimates.
    """
    return cast(Floats, np.einsum("s,sa,sap,sa->p", weights, policy, scores, advantage))
