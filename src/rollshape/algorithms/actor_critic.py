"""What PPO, A2C and REINFORCE share: an actor-critic network, Adam behind a gradient clip, GAE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.activations import ActivationName
from rollshape.agents.custom import adapt_network
from rollshape.agents.distributions import distribution_for
from rollshape.agents.networks import ActorCritic
from rollshape.agents.normalizer import Moments, standardize
from rollshape.agents.policy import Act, Policy
from rollshape.agents.returns import gae, next_values
from rollshape.algorithms.adam import Adam, AdamState, clip_factor
from rollshape.algorithms.base import Algorithm, Rollout, State, flatten_steps
from rollshape.algorithms.parallel import FlatParameters, Parallel, choose_layout, reserve_devices
from rollshape.algorithms.settings import CommonSettings
from rollshape.envs.spaces import Action, Observation
from rollshape.geometry.layout import bulk_steps
from rollshape.geometry.plan import Plan
from rollshape.geometry.values import FINITE, NOT_NEGATIVE, POSITIVE

# Weights are drawn by one program: as single operations a cold start would compile dozens of them.
_new_network: Any = jax.jit(ActorCritic, static_argnums=(1, 2, 3, 4))


@dataclass(frozen=True, kw_only=True)
class OnPolicySettings(CommonSettings):
    """Settings of algorithms that train on the rollout they have just collected."""

    activation: Annotated[ActivationName, "activation of the hidden layers"] = "tanh"
    anneal_lr: Annotated[bool, "decay the learning rate linearly to zero"] = False
    entropy_coef: Annotated[float, "entropy bonus coefficient", FINITE] = 0.0
    value_coef: Annotated[float, "coefficient of mean((V − R)²)", NOT_NEGATIVE] = 0.5
    max_grad_norm: Annotated[float | None, "clip of the global gradient norm", POSITIVE] = 0.5
    normalize_advantages: Annotated[
        Literal["minibatch", "rollout", "off"], "samples over which advantages are normalized"
    ] = "minibatch"
    normalize_observations: Annotated[bool, "normalize observations by running mean and deviation"] = False
    normalize_rewards: Annotated[bool, "scale rewards by the running deviation of the discounted return"] = False


class Samples(NamedTuple):
    """What a gradient step reads, one row per sample."""

    observation: Array
    action: Array
    log_prob: Array
    value: Array
    advantage: Array
    returns: Array
    valid: Array | None


class ActorCriticAlgorithm(Algorithm):
    """An algorithm that trains an actor-critic network on rollouts."""

    has_critic = True
    adam_betas = (0.9, 0.999)

    def __init__(self, spec: Any, plan: Plan, observation: Observation, action: Action, network: Any = None) -> None:
        super().__init__(spec, plan, observation, action)
        self.distribution = distribution_for(action)
        reserve_devices()
        # Shards exist to use the cores of a CPU; a single accelerator needs none.
        num_shards = 1 if spec.num_shards == "auto" and jax.default_backend() != "cpu" else spec.num_shards
        self.parallel = Parallel(
            choose_layout(
                plan, observation, self.distribution.num_outputs, num_shards=num_shards,
                microbatch_size=spec.microbatch_size, hidden_sizes=spec.hidden_sizes,
            )
        )  # fmt: skip
        self._network = network
        self.gae_lambda = spec.gae_lambda
        self.optimizer = Adam(self.adam_betas, eps=1e-5)

    def new_network(self, key: Array) -> Any:
        """Return the network to train: the built-in one, or the caller's."""
        spec = self.spec
        if self._network is not None:
            return adapt_network(self._network, key, self.observation, self.action)
        return _new_network(key, self.observation, self.action, spec.hidden_sizes, spec.activation)

    def policy(self, state: State, moments: Moments | None = None) -> Policy:
        return Policy(state.network, moments, self.distribution)

    def act_fn(self, state: State) -> Act:
        return self.policy(state).act_fn()

    def complete(self, state: State, rollout: Rollout, last_observation: Array) -> Rollout:
        return complete_rollout(self.policy(state), rollout, last_observation)

    def advantages(self, rollout: Rollout, gae_lambda: float | Array | None = None) -> tuple[Array, Array]:
        """Generalized advantage estimation; the value targets are A + V."""
        lam = self.spec.gae_lambda if gae_lambda is None else gae_lambda
        estimate = jax.vmap(gae, (1, 1, 1, 1, 1, None, None), 1)(
            rollout.reward, rollout.value, values_after_steps(rollout), rollout.terminated,
            rollout.terminated | rollout.truncated, self.spec.gamma, lam,
        )  # fmt: skip
        return estimate, estimate + rollout.value

    def samples(self, rollout: Rollout, advantages: Array, returns: Array) -> Samples:
        """Return the rollout as training samples [T·N, …], advantages normalized where the spec says so."""
        if self.centers_advantages:
            advantages = advantages - self.parallel.moments(advantages, (0, 1), rollout.valid).mean
        if self.spec.normalize_advantages == "rollout":
            advantages = standardize(self.parallel.moments(advantages, (0, 1), rollout.valid), advantages)
        return flatten_samples(rollout, advantages, returns)

    def learning_rate(self, updates: Array) -> Array:
        """Return the learning rate after so many updates."""
        left = 1.0 - updates / (self.plan.num_updates or 1) if self.spec.anneal_lr else 1.0
        return jnp.asarray(self.spec.learning_rate * left, jnp.float32)

    def adam_step(
        self, parameters: FlatParameters, optimizer: AdamState, gradient: Array, rate: Array
    ) -> tuple[FlatParameters, AdamState]:
        """Return parameters and optimizer state after one step of Adam on the clipped gradient."""
        scale = clip_factor(gradient_norm(gradient), self.spec.max_grad_norm)
        vector, optimizer = self.optimizer.step(parameters.vector, optimizer, gradient, rate, scale)
        return parameters.replace(vector), optimizer

    def explained_variance(self, rollout: Rollout, returns: Array) -> Array:
        """Return 1 − Var(R − V)/Var(R), NaN where the returns do not vary."""
        both = jnp.stack([returns, returns - rollout.value], axis=-1)
        total, residual = self.parallel.moments(both, (0, 1), rollout.valid).variance
        return jnp.where(total > 0, 1.0 - residual / total, jnp.nan)


def complete_rollout(policy: Policy, rollout: Rollout, last_observation: Array) -> Rollout:
    """Fill in log_prob and value, and last_value if it is missing; observations are as the network reads them."""
    network, outputs, value = policy.network, rollout.outputs, rollout.value
    if value is None and outputs is None:
        outputs, value = over_steps(network, network, rollout.observation)
    elif value is None:
        value = over_steps(network, network.value, rollout.observation)
    nothing: Any = None
    return rollout._replace(
        outputs=nothing,
        log_prob=policy.distribution.log_prob(outputs, rollout.action),
        value=value,
        last_value=network.value(last_observation) if rollout.last_value is None else rollout.last_value,
    )


def over_steps(network: Any, function: Callable[[Array], Any], observation: Array) -> Any:
    """Return what a function computes of observations [T, N, …], in groups of steps that limit its memory.

    Images come one step at a time: the convolution patches of all steps together take gigabytes.
    """
    num_steps, num_envs = observation.shape[:2]
    is_image = getattr(network, "encoder", None) is not None
    size = 1 if is_image else bulk_steps(num_envs, num_steps)
    if size == num_steps:
        return function(observation)
    groups = observation.reshape(num_steps // size, size, *observation.shape[1:])
    return jax.tree.map(lambda x: x.reshape(num_steps, *x.shape[2:]), jax.lax.map(function, groups))


def flatten_samples(rollout: Rollout, advantages: Array, returns: Array) -> Samples:
    """Return the rollout [T, N, …] with its advantages and value targets as samples [T·N, …]."""
    columns = (rollout.observation, rollout.action, rollout.log_prob, rollout.value, advantages, returns)
    samples: Samples = flatten_steps(Samples(*columns, rollout.valid))
    return samples


def values_after_steps(rollout: Rollout) -> Array:
    """Return V of where each step led, [T, N]: of the final observation where the episode was truncated."""
    following: Array = jax.vmap(next_values, (1, 0, 1, 1), 1)(
        rollout.value, rollout.last_value, rollout.truncated, rollout.final_value
    )
    return following


def gradient_norm(gradient: Array) -> Array:
    return jnp.sqrt(jnp.sum(gradient**2))
