"""Randomized return decomposition on SAC (Ren et al. 2022), for rewards that come only at the end of an episode.

A reward network r̂(s, a, s − s′) learns what each step was worth: for K random timesteps of a finished episode of T
steps with return R, the mean of r̂ should be R/T. Every gradient step first trains the reward network on
`rrd_batch_size` timesteps in subsequences of `rrd_sample_size`, then SAC on transitions with predicted rewards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents import soft
from rollshape.agents.return_decomposition import decomposition_loss, draw_timesteps, predict_rewards
from rollshape.algorithms.replay import (
    ReplayBuffer,
    has_finished_episode,
    has_overlong_episode,
    returns_of,
    sample_episodes,
    slot,
)
from rollshape.algorithms.sac import SAC, Optimizers, SACInfo, SACSettings, SACState, TransitionBatches
from rollshape.errors import RequestError, RunError


@dataclass(frozen=True, kw_only=True)
class RRDSettings(SACSettings):
    """Settings of RRD only; its sizes are planned."""

    rrd_unbiased: Annotated[bool, "RRD: subtract the variance of the sampled timesteps from the loss"] = False


class Subsequences(NamedTuple):
    """K timesteps each of episodes: their locations [..., B, K], and the episodes' returns and lengths [..., B]."""

    env: Array
    position: Array
    episode_return: Array
    length: Array


class RRDBatches(NamedTuple):
    """What the gradient steps of an iteration read: transitions [G, M], subsequences [G, B, K]."""

    transitions: TransitionBatches
    subsequences: Subsequences


class RRDInfo(NamedTuple):
    """What one iteration reports: SAC's fields, and the reward network's."""

    gradient_steps: Array
    policy_loss: Array
    q_loss: Array
    entropy: Array
    temperature: Array
    grad_norm: Array
    learning_rate: Array
    reward_loss: Array
    reward_correlation: Array  # of r̂ with the true rewards of the transitions


class RRD(SAC):
    Settings = RRDSettings
    reports = (*SAC.reports, "reward_loss", "reward_correlation")
    has_reward_network = True

    def __init__(self, spec: Any, *args: Any, **options: Any) -> None:
        super().__init__(spec, *args, **options)
        if spec.rrd_unbiased and self.sizes.rrd_sample_size == 1:
            raise RequestError(
                "contradiction",
                "rrd_unbiased needs the variance of at least two timesteps, but rrd_sample_size is 1.",
                "Use rrd_sample_size 2 or more, or leave --rrd-unbiased out.",
            )

    def can_train(self, buffer: ReplayBuffer) -> Array:
        return has_finished_episode(buffer)

    def sample_batches(self, buffer: ReplayBuffer, key: Array) -> RRDBatches:
        """Sample transitions as SAC does, and episodes in proportion to their length with K timesteps of each."""
        sizes, (_, episode_key, timestep_key, _) = self.sizes, jax.random.split(key, 4)
        shape = (sizes.train_batches, sizes.num_subsequences)
        subsequences = sample_subsequences(buffer, (episode_key, timestep_key), shape, sizes.rrd_sample_size)
        return RRDBatches(super().sample_batches(buffer, key), subsequences)

    def gradient_step(
        self, buffer: ReplayBuffer, learner: tuple[soft.SoftAgent, Optimizers], batches: Any
    ) -> tuple[tuple[soft.SoftAgent, Optimizers], RRDInfo]:
        """Train the reward network on subsequences, then SAC on the rewards it predicts."""
        agent, optimizers = learner
        reward_loss, gradient = jax.value_and_grad(reward_network_loss)(
            agent.reward, self.distribution, buffer, batches.subsequences, self.spec.rrd_unbiased
        )
        network, reward_state = self.adam_step(agent.reward, optimizers.reward, gradient)
        batch = self.transitions(buffer, batches.transitions)
        predicted = predict_rewards(network, self.distribution, batch.observation, batch.action, batch.next_observation)
        true = buffer.reward[slot(buffer, batches.transitions.env, batches.transitions.position)]
        agent, optimizers, info = self.soft_step(
            agent.with_reward(network), optimizers._replace(reward=reward_state), batch._replace(reward=predicted),
            batches.transitions.noise,
        )  # fmt: skip
        return (agent, optimizers), RRDInfo(*info, reward_loss, _correlation(predicted, true))

    def mean_info(self, infos: RRDInfo) -> RRDInfo:
        means: RRDInfo = super().mean_info(infos)
        return means._replace(reward_correlation=jnp.nanmean(infos.reward_correlation))

    def no_info(self) -> RRDInfo:
        info: SACInfo = super().no_info()
        return RRDInfo(*info, *[jnp.full((), jnp.nan)] * 2)

    def check(self, state: SACState, info: RRDInfo, is_last: bool) -> None:
        """Raise where an episode outgrew the replay buffer, or where the run ends and nothing was learned."""
        if bool(has_overlong_episode(state.buffer)):
            raise RunError(
                "replay-length",
                f"An episode of {self.spec.env} is longer than the {self.sizes.slots_per_env:,} slots that the replay "
                "buffer has per environment, and RRD needs whole episodes. The previous checkpoint is kept.",
                "Use a larger --buffer-size or fewer --num-envs.",
            )
        if is_last and not bool(info.gradient_steps.any()) and not bool(has_finished_episode(state.buffer)):
            raise RunError(
                "zero-updates",
                f"No episode of {self.spec.env} ended within {self.plan.actual_timesteps:,} timesteps. RRD learns from "
                "finished episodes, so no gradient step was made.",
                "Use a larger --total-timesteps, or fewer --num-envs.",
            )


def sample_subsequences(
    buffer: ReplayBuffer, keys: tuple[Array, Array], shape: tuple[int, ...], size: int
) -> Subsequences:
    """Sample `size` timesteps of each of `shape` episodes; keys are for the episodes and for their timesteps."""
    episodes = sample_episodes(buffer, keys[0], shape)
    timesteps = draw_timesteps(keys[1], episodes.length, size)
    envs = jnp.broadcast_to(episodes.env[..., None], timesteps.shape)
    return Subsequences(envs, episodes.start[..., None] + timesteps, returns_of(buffer, episodes), episodes.length)


def reward_network_loss(
    network: soft.Network, distribution: soft.SoftDistribution, buffer: ReplayBuffer, batch: Subsequences,
    unbiased: bool,
) -> Array:  # fmt: skip
    """Return the decomposition loss, averaged over subsequences [B, K]."""
    env, position = batch.env.reshape(-1), batch.position.reshape(-1)
    here, there = slot(buffer, env, position), slot(buffer, env, position + 1)
    rewards = predict_rewards(
        network, distribution, buffer.observation[here], buffer.action[here], buffer.observation[there]
    )
    return decomposition_loss(rewards.reshape(batch.env.shape), batch.episode_return, batch.length, unbiased).mean()


def _correlation(a: Array, b: Array) -> Array:
    """Return Pearson's correlation, NaN where one of them is constant."""
    a, b = a - a.mean(), b - b.mean()
    return (a * b).mean() / jnp.sqrt((a**2).mean() * (b**2).mean())
