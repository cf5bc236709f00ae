"""PPO-EWMA (Hilton et al. 2021, "Batch size-invariance for policy optimization").

PPO's old policy has two jobs: it corrects for the policy that collected the data (importance sampling), and it limits
how far a step may go (clipping). PPO-EWMA leaves the first to the behavior policy and gives the second to a proximal
policy, an exponentially weighted moving average of the parameters:

    −min(π/π_behavior·A, clip(π/π_prox, 1−ε, 1+ε)·π_prox/π_behavior·A).

The age of the proximal policy does not depend on the size of the rollout, so larger batches can be compensated. A
minibatch c times as large: Adam's step size × √c and its betas to the power c, the center of mass 1/(1−β)−1 of the
proximal policy ÷ c. A rollout c times as large: the span 1/(1−β) of the advantages' moving moments ÷ c.
`reference_rollout_size` makes these adjustments, from the sizes that the run would have there to those it has.
Advantages are always normalized by moments of whole rollouts (or not at all): within a minibatch would depend on M.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.losses import PolicyLoss, value_loss
from rollshape.agents.normalizer import Moments, standardize
from rollshape.algorithms.actor_critic import Samples, flatten_samples, gradient_norm
from rollshape.algorithms.base import Rollout
from rollshape.algorithms.parallel import FlatParameters, flatten
from rollshape.algorithms.ppo import PPO, ClipSettings, PPOInfo, PPOMetrics
from rollshape.geometry.minibatch import minibatch_at
from rollshape.geometry.plan import Plan
from rollshape.geometry.values import COUNT, DECAY

BETA_1, BETA_2 = 0.9, 0.999  # Adam's, at the reference size


@dataclass(frozen=True, kw_only=True)
class PPOEWMASettings(ClipSettings):
    """Settings of PPO-EWMA only."""

    proximal_decay: Annotated[
        float, "PPO-EWMA: decay per gradient step of the proximal policy's moving average", DECAY
    ] = 0.889
    advantage_decay: Annotated[float, "PPO-EWMA: decay per update of the advantages' mean and variance", DECAY] = 0.0
    reference_rollout_size: Annotated[
        int | None,
        "PPO-EWMA: rollout size the settings were tuned for; learning rate, Adam betas and decays are rescaled from it",
        COUNT,
    ] = None


class PPOEWMAState(NamedTuple):
    """What is carried from one update to the next."""

    network: Any
    optimizer: Any
    updates: Array
    proximal: Any  # the network whose parameters are the moving average
    proximal_weight: Array  # sum of the average's weights
    advantages: Moments  # moving average


class EWMALearner(NamedTuple):
    """What gradient steps change within an update."""

    parameters: FlatParameters
    optimizer: Any
    learning_rate: Array
    proximal: Array  # flat parameters
    proximal_weight: Array


def adjusted_settings(
    settings: PPOEWMASettings, minibatch_ratio: float, rollout_ratio: float
) -> tuple[PPOEWMASettings, tuple[float, float]]:
    """Return the settings for a minibatch and a rollout so many times as large, and Adam's betas."""
    c, center_of_mass = minibatch_ratio, 1 / (1 - settings.proximal_decay) - 1
    span = 1 / (1 - settings.advantage_decay) / rollout_ratio  # updates whose advantages count; at least this one
    adjusted = replace(
        settings,
        learning_rate=settings.learning_rate * c**0.5,
        proximal_decay=1 - 1 / (1 + center_of_mass / c),
        advantage_decay=max(0.0, 1 - 1 / span),
    )
    return adjusted, (BETA_1**c, BETA_2**c)


class PPOEWMA(PPO):
    Settings = PPOEWMASettings

    def __init__(self, spec: Any, plan: Plan, *args: Any, **options: Any) -> None:
        reference = spec.reference_rollout_size or plan.rollout_size
        tuned = minibatch_at(reference, spec.minibatch_size, spec.num_minibatches)
        ratio = plan.minibatch_size / tuned
        spec, self.adam_betas = adjusted_settings(spec, ratio, plan.rollout_size / reference)
        super().__init__(spec, plan, *args, **options)

    def derived_settings(self) -> dict[str, Any]:
        names = ("learning_rate", "proximal_decay", "advantage_decay")
        return {**{name: getattr(self.spec, name) for name in names}, "adam_betas": self.adam_betas}

    def init(self, key: Array) -> Any:
        network = self.new_network(key)
        optimizer = self.optimizer.init(flatten(network).vector)
        nothing = Moments(*(jnp.zeros(()) for _ in range(3)))
        proximal = jax.tree.map(jnp.copy, network)  # a donated buffer must not be in the state twice
        return PPOEWMAState(network, optimizer, jnp.zeros((), jnp.int32), proximal, jnp.ones(()), nothing)

    def update(self, state: Any, rollout: Rollout, key: Array) -> tuple[Any, PPOInfo]:
        advantages, returns = self.advantages(rollout)
        moments = self.average_moments(state.advantages, self.parallel.moments(advantages, (0, 1), rollout.valid))
        if self.spec.normalize_advantages != "off":  # within a minibatch would depend on its size
            advantages = standardize(moments, advantages)
        samples = flatten_samples(rollout, advantages, returns)
        proximal = flatten(state.proximal)
        learner, steps, norms = self.train_epochs(
            EWMALearner(
                flatten(state.network), state.optimizer, self.learning_rate(state.updates), proximal.vector,
                state.proximal_weight,
            ),
            samples,
            key,
        )  # fmt: skip
        info = self.info(steps, norms, self.explained_variance(rollout, returns), learner.learning_rate)
        new_state = PPOEWMAState(
            learner.parameters.network, learner.optimizer, state.updates + 1, proximal.unravel(learner.proximal),
            learner.proximal_weight, moments,
        )  # fmt: skip
        return new_state, info

    def average_moments(self, average: Moments, new: Moments) -> Moments:
        """Return the moving average of mean and second moment, weighted by samples."""
        weight = self.spec.advantage_decay * average.weight
        total = weight + new.weight
        mean = (weight * average.mean + new.weight * new.mean) / total
        square = (weight * (average.variance + average.mean**2) + new.weight * (new.variance + new.mean**2)) / total
        return Moments(mean, square - mean**2, total)

    def minibatch_advantages(self, samples: Samples, indices: Array) -> Array:
        return samples.advantage[indices]

    def gradient_step(self, learner: Any, batch: Samples) -> tuple[Any, PPOMetrics, Array]:
        """Make one step of Adam on a minibatch, then move the proximal policy."""
        proximal = learner.parameters.unravel(learner.proximal)
        gradient, metrics = self.parallel.mean_gradient(
            partial(self.proximal_loss, proximal), learner.parameters, batch
        )
        parameters, optimizer = self.adam_step(learner.parameters, learner.optimizer, gradient, learner.learning_rate)
        weight = self.spec.proximal_decay * learner.proximal_weight + 1
        average = learner.proximal + (parameters.vector - learner.proximal) / weight
        stepped = EWMALearner(parameters, optimizer, learner.learning_rate, average, weight)
        return stepped, metrics, gradient_norm(gradient)

    def proximal_loss(self, proximal: Any, network: Any, batch: Samples) -> tuple[Array, PPOMetrics]:
        """Return the loss of each sample, and what is reported of it: ratios are to the behavior policy, clip fraction
        and KL to the proximal one."""
        outputs, values = network(batch.observation)
        log_prob = self.distribution.log_prob(outputs, batch.action)
        proximal_log_prob = self.distribution.log_prob(proximal(batch.observation)[0], batch.action)
        policy = decoupled_policy_loss(
            log_prob, proximal_log_prob, batch.log_prob, batch.advantage, self.spec.clip_range
        )
        critic, entropy = value_loss(values, batch.returns), self.distribution.entropy(outputs)
        losses = policy.loss + self.spec.value_coef * critic - self.spec.entropy_coef * entropy
        return losses, PPOMetrics(
            policy.loss, critic, entropy, policy.approx_kl, policy.clipped, policy.ratio, policy.ratio**2
        )


def decoupled_policy_loss(
    log_prob: Array, proximal_log_prob: Array, behavior_log_prob: Array, advantages: Array, clip_range: float
) -> PolicyLoss:
    """Return −min(r_b·A, clip(r_p, 1−ε, 1+ε)·(π_prox/π_behavior)·A) with r_b = π/π_behavior and r_p = π/π_prox."""
    ratio = jnp.exp(log_prob - behavior_log_prob)
    log_proximal_ratio = log_prob - proximal_log_prob
    proximal_ratio = jnp.exp(log_proximal_ratio)
    clipped = jnp.clip(proximal_ratio, 1.0 - clip_range, 1.0 + clip_range)
    correction = jnp.exp(proximal_log_prob - behavior_log_prob)
    return PolicyLoss(
        loss=-jnp.minimum(ratio * advantages, clipped * correction * advantages),
        approx_kl=(proximal_ratio - 1.0) - log_proximal_ratio,
        clipped=(jnp.abs(proximal_ratio - 1.0) > clip_range).astype(jnp.float32),
        ratio=ratio,
    )
