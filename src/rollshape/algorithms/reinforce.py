"""REINFORCE (Williams 1992): the score of each action times a return, less a baseline.

`returns`: `to-go` weighs an action by the rewards that come after it, `episode` by the return of its whole episode, the
textbook's first version. With γ = 1 both have the same mean and `episode` has more noise; with γ < 1 `episode` also
discounts later actions, E[ψ_t·R] = γᵗ·E[ψ_t·G_t]. Only the part of an episode inside the rollout counts.
`baseline`: none; the mean of the rollout's returns; or a value function, which is trained by the rewards to go and also
stands for the rest of an episode that the rollout or a time limit cuts off. Without it the rest counts as zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.returns import episode_returns, rewards_to_go
from rollshape.algorithms.a2c import A2C, A2CInfo
from rollshape.algorithms.actor_critic import OnPolicySettings, values_after_steps
from rollshape.algorithms.base import Rollout


@dataclass(frozen=True, kw_only=True)
class ReinforceSettings(OnPolicySettings):
    """Settings of REINFORCE only."""

    returns: Annotated[Literal["to-go", "episode"], "REINFORCE: rewards after the action, or of the whole episode"] = (
        "to-go"
    )
    baseline: Annotated[
        Literal["none", "mean", "value"],
        "REINFORCE: subtracted from the return (--normalize-advantages centers, too)",
    ] = "value"


class Reinforce(A2C):
    """One full-batch policy-gradient step, as A2C makes it, on returns instead of GAE."""

    Settings = ReinforceSettings

    def __init__(self, spec: Any, *args: Any, **options: Any) -> None:
        super().__init__(spec, *args, **options)
        self.has_critic = spec.baseline == "value"
        self.centers_advantages = spec.baseline == "mean"
        self.gae_lambda, self.depends_on_past = 1.0, spec.returns == "episode"
        if not self.has_critic:
            self.must_stay_finite = ("policy_loss", "grad_norm")

    def advantages(self, rollout: Rollout, gae_lambda: float | Array | None = None) -> tuple[Array, Array]:
        """Return (returns less the value baseline, rewards to go); the mean baseline is subtracted later."""
        del gae_lambda  # there is no λ
        ended = rollout.terminated | rollout.truncated
        after = values_after_steps(rollout)
        rest = after if self.has_critic else jnp.zeros_like(after)
        to_go = jax.vmap(rewards_to_go, (1, 1, 1, 1, None), 1)(
            rollout.reward, rest, rollout.terminated, ended, self.spec.gamma
        )
        weights = to_go if self.spec.returns == "to-go" else jax.vmap(episode_returns, 1, 1)(to_go, ended)
        return (weights - rollout.value if self.has_critic else weights), to_go

    def summarize(self, info: A2CInfo) -> dict[str, Any]:
        """Without a value baseline nothing trains the critic, and nothing is reported of it."""
        row = super().summarize(info)
        critic = ("value_loss", "explained_variance")
        return row if self.has_critic else {name: row[name] for name in row if name not in critic}
