"""Soft actor-critic with twin critics and automatic temperature (Haarnoja et al. 2018; discrete: Christodoulou 2019).

One update: append the rollout to the replay buffer, then `train_batches` gradient steps. Each draws a batch of
transitions and trains, in this order, the critics on r + γ·(1 − terminated)·V(s′), the actor on α·log π − min Q, the
temperature α towards the target entropy, and moves the target critics a little towards the critics.
The first `learning_starts` steps act at random and train nothing. The replay buffer is part of the state, and so of
every checkpoint: without it a resumed run would not be the same run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents import soft
from rollshape.agents.normalizer import Moments
from rollshape.agents.policy import Act, Policy
from rollshape.algorithms.adam import Adam, AdamState
from rollshape.algorithms.base import Algorithm, Rollout, mean_of
from rollshape.algorithms.parallel import Layout, Parallel
from rollshape.algorithms.replay import (
    TERMINAL,
    ReplayBuffer,
    drop_running_episodes,
    episodic_rewards,
    has_transition,
    new_buffer,
    sample_transitions,
    slot,
    store,
)
from rollshape.algorithms.settings import CommonSettings
from rollshape.envs.spaces import Action, Observation
from rollshape.errors import RequestError
from rollshape.geometry.plan import Plan
from rollshape.geometry.values import DECAY

_new_agent: Any = jax.jit(soft.new_soft_agent, static_argnums=(1, 2, 3, 4))


@dataclass(frozen=True, kw_only=True)
class SACSettings(CommonSettings):
    """Settings of SAC only; its sizes are planned."""

    polyak: Annotated[float, "SAC, RRD: target ← polyak·target + (1 − polyak)·critic per gradient step", DECAY] = 0.995


class SACState(NamedTuple):
    """What is carried from one iteration to the next."""

    agent: soft.SoftAgent  # actor, critics, target critics, temperature
    optimizers: Any
    buffer: ReplayBuffer
    iterations: Array


class Optimizers(NamedTuple):
    """Adam's state of each network."""

    actor: Any
    critics: Any
    temperature: Any
    reward: Any = None  # RRD's


class SACInfo(NamedTuple):
    """What one iteration reports: means over its gradient steps."""

    gradient_steps: Array  # 0 while the run warms up
    policy_loss: Array
    q_loss: Array
    entropy: Array
    temperature: Array
    grad_norm: Array  # of critics and actor together
    learning_rate: Array


class TransitionBatches(NamedTuple):
    """Where the transitions of an iteration's gradient steps are in the buffer, [G, M]; noise [G, 2, M, …]."""

    env: Array
    position: Array
    noise: Array


class SAC(Algorithm):
    Settings: ClassVar[type[CommonSettings]] = SACSettings
    reports: ClassVar[tuple[str, ...]] = (
        "policy_loss", "q_loss", "entropy", "temperature", "grad_norm", "learning_rate",
    )  # fmt: skip
    uses_replay = True
    has_critic = True
    must_stay_finite = ("policy_loss", "q_loss", "grad_norm")
    has_reward_network = False

    def __init__(self, spec: Any, plan: Plan, observation: Observation, action: Action, network: Any = None) -> None:
        if network is not None:
            raise RequestError(
                "network", "SAC and RRD train their own networks.", "Use PPO, PPO-EWMA, A2C or REINFORCE."
            )
        if spec.num_shards not in (1, "auto"):
            raise RequestError(
                "layout", f"{spec.algo} runs in one shard, not in {spec.num_shards}.", "Leave --num-shards out."
            )
        if spec.microbatch_size not in (plan.minibatch_size, "auto"):
            raise RequestError("layout", f"{spec.algo} does not split its minibatches.", "Leave --microbatch-size out.")
        super().__init__(spec, plan, observation, action)
        assert plan.replay is not None
        self.sizes = plan.replay
        self.distribution: soft.SoftDistribution = soft.soft_distribution_for(action)
        self.parallel = Parallel(Layout(1, plan.minibatch_size))
        self.warm_up = self.sizes.learning_starts // plan.rollout_size  # iterations that only collect
        self.optimizer = Adam()

    def init(self, key: Array) -> SACState:
        hidden, start = self.spec.hidden_sizes, self.optimizer.init
        agent = _new_agent(key, self.observation, self.action, hidden, self.has_reward_network)
        optimizers = Optimizers(
            start(agent.actor), start(agent.critics), start(agent.log_temperature),
            None if agent.reward is None else start(agent.reward),
        )  # fmt: skip
        buffer = new_buffer(self.plan, self.observation, self.action)
        return SACState(agent, optimizers, buffer, jnp.zeros((), jnp.int32))

    def policy(self, state: SACState, moments: Moments | None = None) -> Policy:
        return Policy(state.agent, moments, self.distribution)

    def act_fn(self, state: SACState) -> Act:
        def act(observation: Array, noise: Array) -> tuple[Array, dict[str, Array]]:
            action = self.distribution.select(state.agent.actor(observation)[0], noise)
            uniform = soft.random_actions(self.distribution, noise)
            return jnp.where(state.iterations < self.warm_up, uniform, action), {}

        return act

    def update(self, state: SACState, rollout: Rollout, key: Array) -> tuple[SACState, Any]:
        buffer = store(state.buffer, rollout)
        iterations = state.iterations + 1
        is_ready = (iterations > self.warm_up) & self.can_train(buffer)
        (agent, optimizers), info = jax.lax.cond(
            is_ready,
            partial(self.train, buffer, key),
            lambda agent, optimizers: ((agent, optimizers), self.no_info()),
            state.agent,
            state.optimizers,
        )
        return SACState(agent, optimizers, buffer, iterations), info

    def can_train(self, buffer: ReplayBuffer) -> Array:
        return has_transition(buffer)

    def train(
        self, buffer: ReplayBuffer, key: Array, agent: soft.SoftAgent, optimizers: Optimizers
    ) -> tuple[tuple[soft.SoftAgent, Optimizers], Any]:
        """Make all gradient steps of an iteration."""
        batches = self.sample_batches(buffer, key)
        step = partial(self.gradient_step, buffer)
        learned, infos = jax.lax.scan(step, (agent, optimizers), batches)
        return learned, self.mean_info(infos)

    def sample_batches(self, buffer: ReplayBuffer, key: Array) -> Any:
        *keys, noise_key = jax.random.split(key, 4)
        count, size = self.plan.num_minibatches, self.plan.minibatch_size
        env, position = sample_transitions(buffer, keys[0], (count, size))
        return TransitionBatches(env, position, self.distribution.draw_noise(noise_key, (count, 2, size)))

    def gradient_step(
        self, buffer: ReplayBuffer, learner: tuple[soft.SoftAgent, Optimizers], batches: TransitionBatches
    ) -> tuple[tuple[soft.SoftAgent, Optimizers], Any]:
        """Train critics, actor and temperature on one batch."""
        agent, optimizers = learner
        batch = self.transitions(buffer, batches)
        agent, optimizers, info = self.soft_step(agent, optimizers, batch, batches.noise)
        return (agent, optimizers), info

    def transitions(self, buffer: ReplayBuffer, batches: TransitionBatches) -> soft.Batch:
        """Read transitions with their rewards: those of the steps, or with `episodic_reward` returns at the end."""
        here = slot(buffer, batches.env, batches.position)
        there = slot(buffer, batches.env, batches.position + 1)
        reward = buffer.reward[here]
        if self.spec.episodic_reward:
            reward = episodic_rewards(buffer, batches.env, batches.position)
        return soft.Batch(
            buffer.observation[here], buffer.action[here], reward, buffer.kind[here] == TERMINAL,
            buffer.observation[there],
        )  # fmt: skip

    def soft_step(
        self, agent: soft.SoftAgent, optimizers: Optimizers, batch: soft.Batch, noise: Array
    ) -> tuple[soft.SoftAgent, Optimizers, SACInfo]:
        """One step each of critics, actor, temperature and target critics; each uses the one before it as updated."""
        spec, distribution = self.spec, self.distribution
        next_value, _ = soft.soft_values(
            agent.actor, agent.targets, agent.temperature, distribution, batch.next_observation, noise[0]
        )
        targets = soft.critic_targets(batch.reward, batch.terminated, next_value, spec.gamma)
        q_loss, q_gradient = jax.value_and_grad(soft.critic_loss)(
            agent.critics, distribution, batch, jax.lax.stop_gradient(targets)
        )
        critics, critic_state = self.adam_step(agent.critics, optimizers.critics, q_gradient)
        (policy_loss, log_prob), actor_gradient = jax.value_and_grad(soft.actor_loss, has_aux=True)(
            agent.actor, critics, agent.temperature, distribution, batch.observation, noise[1]
        )
        actor, actor_state = self.adam_step(agent.actor, optimizers.actor, actor_gradient)
        slope = jax.grad(soft.temperature_loss)(agent.log_temperature, log_prob, soft.target_entropy(agent.action))
        log_temperature, temperature_state = self.adam_step(agent.log_temperature, optimizers.temperature, slope)
        info = SACInfo(
            gradient_steps=jnp.ones((), jnp.int32),
            policy_loss=policy_loss,
            q_loss=q_loss,  # Σ over the twins of ½·mean is the mean over both of them
            entropy=-log_prob,
            temperature=agent.temperature,
            grad_norm=_norm((q_gradient, actor_gradient)),
            learning_rate=jnp.asarray(spec.learning_rate),
        )
        averaged = soft.polyak_average(agent.targets, critics, spec.polyak)
        agent = soft.SoftAgent(actor, critics, averaged, log_temperature, agent.reward, agent.action)
        return agent, Optimizers(actor_state, critic_state, temperature_state, optimizers.reward), info

    def adam_step(self, parameters: Any, state: AdamState, gradient: Any) -> tuple[Any, AdamState]:
        return self.optimizer.step(parameters, state, gradient, self.spec.learning_rate)

    def mean_info(self, infos: Any) -> Any:
        """Means over the gradient steps of an iteration."""
        means = jax.tree.map(lambda x: x.mean(), infos)
        return means._replace(gradient_steps=infos.gradient_steps.sum())

    def no_info(self) -> Any:
        """What an iteration without gradient steps reports."""
        nothing = jnp.full((), jnp.nan)
        rate = jnp.asarray(self.spec.learning_rate)
        return SACInfo(jnp.zeros((), jnp.int32), nothing, nothing, nothing, nothing, nothing, rate)

    def acting_state(self, state: SACState) -> SACState:
        nothing: Any = None
        return state._replace(optimizers=nothing, buffer=nothing)

    def forget_episodes(self, state: SACState) -> SACState:
        return state._replace(buffer=jax.jit(drop_running_episodes, donate_argnums=0)(state.buffer))

    def summarize(self, info: Any) -> dict[str, Any]:
        """Means over the iterations that made gradient steps; None where none did."""
        learned = info.gradient_steps > 0
        names = [name for name in info._fields if name not in ("gradient_steps", "learning_rate")]
        return {
            **{name: mean_of(getattr(info, name)[learned]) for name in names},
            "gradient_steps": int(info.gradient_steps.sum()),
            "learning_rate": mean_of(info.learning_rate[-1]),
        }


def _norm(gradients: Any) -> Array:
    return jnp.sqrt(sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradients)), jnp.zeros(())))
