"""The error of a step's gradient by source (sampling, trajectory, credit assignment), from branched environments.

An estimated advantage is Â = A^π + b(s, a) + ε with E[ε | s, a] = 0: the true advantage, a bias, and the noise of the
continuation. With ψ = ∇log π and G* = E[A^π ψ] the error of one step's gradient splits exactly (law of total variance):

E‖Âψ − G*‖² = tr Var(A^π ψ)                             sampling: of states and actions
            + E[‖ψ‖² Var(ε | s, a)]                     trajectory: random continuation
            + E‖bψ‖² + 2·tr Cov(A^π ψ, bψ)              credit assignment: bias of the estimator

Every square is a product of independent draws, so no term has a plug-in bias: S states of different environments, A ≥ 3
actions drawn from π in each, C ≥ 2 continuations of each. Q^π is the mean of unbiased returns, V^π(s) the mean of the
*other* actions' returns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rollshape.errors import RequestError
from rollshape.gradients.intervals import Bootstrap, Estimate, Floats


@dataclass(frozen=True, slots=True)
class Noises:
    """Terms per step and their sum, E‖g − G*‖². Credit assignment is negative where the bias shrinks the gradient."""

    sampling: Estimate
    trajectory: Estimate
    credit: Estimate
    total: Estimate


def true_weights(returns: ArrayLike) -> Floats:
    """Return unbiased A^π of every action, [S, A, C] → [S, A]: its mean return minus that of the other actions."""
    means = np.asarray(returns, np.float64).mean(2)
    actions = means.shape[1]
    return np.asarray(means - (means.sum(1, keepdims=True) - means) / (actions - 1))


def noises(
    estimates: ArrayLike,
    returns: ArrayLike,
    score_norms: ArrayLike,
    true_gram: ArrayLike,
    cross_gram: ArrayLike,
    rng: np.random.Generator,
) -> Noises:
    """Estimate the terms from estimated advantages and unbiased returns of continuations [S, A, C], and ‖ψ‖² [S, A].

    `true_gram` [S, S] holds inner products of the states' rows mean_a(A·ψ), with A of `true_weights`; `cross_gram`
    those of such a row with a row mean_a(Â·ψ), Â the mean over continuations. Both are `row_gram` of scores [S, A, …]
    scaled by those weights.
    """
    estimates, returns = np.asarray(estimates, np.float64), np.asarray(returns, np.float64)
    score_norms, cross = np.asarray(score_norms, np.float64), np.asarray(cross_gram, np.float64)
    if estimates.shape[1] < 3 or estimates.shape[2] < 2:
        raise RequestError(
            "number-range",
            f"Branching needs at least 3 actions per state and 2 continuations per action; got {estimates.shape[1:]}.",
            "Use more.",
        )
    bootstrap = Bootstrap(
        {
            "second": (score_norms * (estimates**2).mean(2)).mean(1),
            "expected": (score_norms * _squared_mean(estimates)).mean(1),
            "true": (score_norms * _squared_advantage(returns)).mean(1),
        },
        {"norm": true_gram, "cross": (cross + cross.T) / 2},
        rng,
    )
    return Noises(
        sampling=bootstrap.estimate(lambda q: q["true"] - q["norm"]),
        trajectory=bootstrap.estimate(lambda q: q["second"] - q["expected"], positive=True),
        credit=bootstrap.estimate(lambda q: q["expected"] - q["true"] - 2 * (q["cross"] - q["norm"])),
        total=bootstrap.estimate(lambda q: q["second"] - 2 * q["cross"] + q["norm"]),
    )


def _squared_mean(draws: Floats) -> Floats:
    """Return (E x)² from pairs of different draws along the last axis."""
    count = draws.shape[-1]
    return np.asarray((draws.sum(-1) ** 2 - (draws**2).sum(-1)) / (count * (count - 1)))


def _squared_advantage(returns: Floats) -> Floats:
    """Return (Q − V)² = Q² − 2QV + V² of every action [S, A]; given (s, a), all factors are independent draws."""
    means = returns.mean(2)
    actions = means.shape[1]
    others = means.sum(1, keepdims=True) - means
    other_squares = (means**2).sum(1, keepdims=True) - means**2
    value_squared = (others**2 - other_squares) / ((actions - 1) * (actions - 2))
    return np.asarray(_squared_mean(returns) - 2 * means * others / (actions - 1) + value_squared)
