"""Learning from a replay: an iteration's gradient steps of SAC, and of RRD's reward network before each of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from rollshape.agents.rrd import decomposition_loss, draw_timesteps, predicted_rewards
from rollshape.agents.sac import (
    Agent,
    Batch,
    Network,
    SoftPolicy,
    actor_loss,
    critic_loss,
    critic_targets,
    moved,
    soft_values,
    target_entropy,
    temperature_loss,
)
from rollshape.geometry.plan import Plan
from rollshape.training.replay import (
    TERMINAL,
    Replay,
    draw_episodes,
    draw_transitions,
    place,
    returns,
    shown_rewards,
)
from rollshape.training.spec import Spec
from rollshape.training.update import Learner


class Optimizers(NamedTuple):
    """Adam's state of each network; SAC has no reward network."""

    actor: Any
    critics: Any
    temperature: Any
    reward: Any


class Subsequences(NamedTuple):
    """K timesteps each of episodes: where they lie [..., B, K], and the episodes' returns and lengths [..., B]."""

    env: Array
    position: Array
    episode_return: Array
    length: Array


class Drawn(NamedTuple):
    """Where an iteration's G batches lie: transitions [G, M] and subsequences [G, B, K], which SAC does without."""

    env: Array
    position: Array
    subsequences: Subsequences | None


class StepReport(NamedTuple):
    """What a gradient step tells."""

    policy_loss: Array
    q_loss: Array
    entropy: Array
    temperature: Array
    grad_norm: Array  # of critics and actor together
    reward_loss: Array
    reward_correlation: Array  # of r̂ with the true rewards of the transitions


def adam(spec: Spec) -> optax.GradientTransformation:
    return optax.adam(spec.learning_rate)


def new_replay_learner(spec: Spec, agent: Agent) -> Learner:
    start = adam(spec).init
    optimizers = Optimizers(
        start(agent.actor),
        start(agent.critics),
        start(agent.log_temperature),
        None if agent.reward is None else start(agent.reward),
    )
    model: Any = agent
    return Learner(model, optimizers, jnp.asarray(spec.learning_rate), jnp.zeros((), bool))


def draw(plan: Plan, replay: Replay, keys: Sequence[Array]) -> Drawn:
    """All batches of an iteration; episodes are drawn in proportion to their length, and K of their timesteps."""
    assert plan.replay is not None
    sizes = plan.replay
    transition_key, episode_key, timestep_key = keys
    env, position = draw_transitions(replay, transition_key, (sizes.train_batches, sizes.transition_batch_size))
    if not sizes.num_subsequences:
        return Drawn(env, position, None)
    shape = (sizes.train_batches, sizes.num_subsequences)
    return Drawn(env, position, draw_subsequences(replay, (episode_key, timestep_key), shape, sizes.rrd_sample_size))


def draw_subsequences(replay: Replay, keys: tuple[Array, Array], shape: tuple[int, ...], size: int) -> Subsequences:
    """`size` timesteps of each of so many episodes; keys are for the episodes and for their timesteps."""
    episodes = draw_episodes(replay, keys[0], shape)
    timesteps = draw_timesteps(keys[1], episodes.length, size)
    envs = jnp.broadcast_to(episodes.env[..., None], timesteps.shape)
    return Subsequences(envs, episodes.start[..., None] + timesteps, returns(replay, episodes), episodes.length)


def learn(
    spec: Spec, plan: Plan, policy: SoftPolicy, learner: Learner, replay: Replay, key: Array
) -> tuple[Learner, StepReport]:
    """An iteration's gradient steps: the learner after them, and the means of what they tell."""
    *draw_keys, noise_key = jax.random.split(key, 4)
    drawn = draw(plan, replay, draw_keys)
    noise = policy.draw_noise(noise_key, (plan.num_minibatches, 2, plan.minibatch_size))
    step = partial(_gradient_step, spec, policy, replay)
    learner, reports = jax.lax.scan(step, learner, (noise, drawn))
    means = StepReport(*(part.mean() for part in reports))
    return learner, means._replace(reward_correlation=jnp.nanmean(reports.reward_correlation))


def _gradient_step(
    spec: Spec, policy: SoftPolicy, replay: Replay, learner: Learner, batch: tuple[Array, Drawn]
) -> tuple[Learner, StepReport]:
    """Reward network, critics, actor, temperature, and the critics' slow copies; each sees the one before it moved."""
    noise, drawn = batch
    agent: Any = learner.model
    optimizers: Optimizers = learner.optimizer
    here, there = place(replay, drawn.env, drawn.position), place(replay, drawn.env, drawn.position + 1)
    reward_loss = correlation = jnp.full((), jnp.nan)
    seen, acted, led_to = replay.observation[here], replay.action[here], replay.observation[there]
    reward = told_rewards(spec, replay, drawn)
    network, reward_state = agent.reward, optimizers.reward
    if network is not None and drawn.subsequences is not None:
        reward_loss, reward_slope = jax.value_and_grad(reward_network_loss)(
            network, policy, replay, drawn.subsequences, spec.rrd_unbiased
        )
        network, reward_state = _stepped(spec, network, reward_state, reward_slope)
        reward = predicted_rewards(network, policy, seen, acted, led_to)
        correlation = _correlation(reward, replay.reward[here])
    now = Batch(seen, acted, reward, replay.kind[here] == TERMINAL, led_to)

    next_value, _ = soft_values(agent.actor, agent.targets, agent.temperature, policy, led_to, noise[0])
    targets = jax.lax.stop_gradient(critic_targets(now.reward, now.terminated, next_value, spec.gamma))
    loss, slope = jax.value_and_grad(critic_loss)(agent.critics, policy, now, targets)
    critics, critic_state = _stepped(spec, agent.critics, optimizers.critics, slope)
    (policy_loss, log_prob), actor_slope = jax.value_and_grad(actor_loss, has_aux=True)(
        agent.actor, critics, agent.temperature, policy, seen, noise[1]
    )
    actor, actor_state = _stepped(spec, agent.actor, optimizers.actor, actor_slope)
    cooling = jax.grad(temperature_loss)(agent.log_temperature, log_prob, target_entropy(agent.action))
    log_temperature, temperature_state = _stepped(spec, agent.log_temperature, optimizers.temperature, cooling)
    model: Any = Agent(
        actor, critics, moved(agent.targets, critics, spec.polyak), log_temperature, network, agent.action
    )
    report = StepReport(
        policy_loss,
        loss,  # Σ over the twins of ½·mean is the mean over both of them
        -log_prob,
        agent.temperature,
        _norm((slope, actor_slope)),
        reward_loss,
        correlation,
    )
    return learner._replace(
        model=model, optimizer=Optimizers(actor_state, critic_state, temperature_state, reward_state)
    ), report


def told_rewards(spec: Spec, replay: Replay, drawn: Drawn) -> Array:
    """What SAC is told of transitions: their own rewards, or an episode's return when it ends."""
    if spec.episodic_reward:
        return shown_rewards(replay, drawn.env, drawn.position)
    return replay.reward[place(replay, drawn.env, drawn.position)]


def _stepped(spec: Spec, parameters: Any, state: Any, slope: Any) -> tuple[Any, Any]:
    change, state = adam(spec).update(slope, state)
    return optax.apply_updates(parameters, change), state


def reward_network_loss(
    network: Network, policy: SoftPolicy, replay: Replay, drawn: Subsequences, unbiased: bool
) -> Array:
    """The decomposition's loss, averaged over subsequences [B, K]."""
    env, position = drawn.env.reshape(-1), drawn.position.reshape(-1)
    here, there = place(replay, env, position), place(replay, env, position + 1)
    rewards = predicted_rewards(
        network, policy, replay.observation[here], replay.action[here], replay.observation[there]
    )
    return decomposition_loss(rewards.reshape(drawn.env.shape), drawn.episode_return, drawn.length, unbiased).mean()


def _norm(slopes: Any) -> Array:
    return jnp.sqrt(sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(slopes)), jnp.zeros(())))


def _correlation(a: Array, b: Array) -> Array:
    """Pearson's; NaN where one of them is constant."""
    a, b = a - a.mean(), b - b.mean()
    return (a * b).mean() / jnp.sqrt((a**2).mean() * (b**2).mean())
