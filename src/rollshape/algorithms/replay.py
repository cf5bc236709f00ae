"""A replay buffer of transitions and of whole episodes over one storage: a ring of slots per environment.

A slot holds an observation and what was done there. An episode of T transitions takes T + 1 consecutive slots, the last
one (FINAL) for where it led, so every observation is stored once and the next observation is in the next slot. `link`
leads from each slot back to the first one of its episode, which knows the length once the episode has ended. FINAL
holds the episode's return in place of a reward. When an episode ends, nothing has to be moved or searched.

Sampling is uniform by rejection: a random slot, and another one where it holds no transition. Episodes found through a
uniform transition are sampled in proportion to their length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.algorithms.base import Rollout
from rollshape.envs.spaces import Action, Continuous, Observation
from rollshape.geometry.plan import Plan

EMPTY, STEP, TERMINAL, FINAL = range(4)


class ReplayBuffer(NamedTuple):
    """N rings of L slots, one after the other: [N·L, …]. Positions only grow; slot = position mod L."""

    observation: Array
    action: Array
    reward: Array  # of the step; the episode's return at FINAL
    link: Array  # steps since the episode's first slot; in that slot −length, 0 while the episode runs
    kind: Array
    written: Array  # [N] number of positions written
    begun: Array  # [N] position of the running episode's first slot
    ended: Array  # [N] position of the latest FINAL, −1 before there is one


class Episodes(NamedTuple):
    """Episodes by location: environment, position of the first slot, number of transitions; [...]."""

    env: Array
    start: Array
    length: Array


def new_buffer(plan: Plan, observation: Observation, action: Action) -> ReplayBuffer:
    """Allocate an empty buffer: memory cannot run out later."""
    assert plan.replay is not None
    slots = plan.replay.slots_per_env * plan.num_envs
    shape, dtype = ((action.dim,), jnp.float32) if isinstance(action, Continuous) else ((), jnp.int32)
    none = jnp.zeros(plan.num_envs, jnp.int32)
    return ReplayBuffer(
        observation=jnp.zeros((slots, *observation.shape), observation.dtype),
        action=jnp.zeros((slots, *shape), dtype),
        reward=jnp.zeros(slots),
        link=jnp.zeros(slots, jnp.int32),
        kind=jnp.zeros(slots, jnp.uint8),
        written=none,
        begun=jnp.copy(none),
        ended=none - 1,
    )


def _ring_length(buffer: ReplayBuffer) -> int:
    """Return L, the slots of one environment."""
    return int(buffer.kind.shape[0]) // int(buffer.written.shape[0])


def slot(buffer: ReplayBuffer, env: Array, position: Array) -> Array:
    """Return the index of an environment's position."""
    length = _ring_length(buffer)
    return env * length + position % length


def store(buffer: ReplayBuffer, rollout: Rollout) -> ReplayBuffer:
    """Append a rollout, overwriting the oldest slots. A plan guarantees that a rollout fits."""
    ended = rollout.terminated | rollout.truncated
    valid = jnp.ones_like(ended) if rollout.valid is None else rollout.valid
    taken = valid.astype(jnp.int32) + ended
    behind = buffer.written + jnp.cumsum(taken, axis=0)
    position = behind - taken  # [T, N]
    # First slot of the running episode: after the latest end in this rollout, else where it began before.
    starts = jnp.maximum(jax.lax.cummax(jnp.where(ended, behind, 0), axis=0), buffer.begun)
    first = jnp.concatenate([buffer.begun[None], starts[:-1]])
    final, envs = position + 1, jnp.broadcast_to(jnp.arange(ended.shape[1]), ended.shape)
    nowhere = buffer.kind.shape[0]

    def slots(position: Array, where: Array) -> Array:
        return jnp.where(where, slot(buffer, envs, position), nowhere).reshape(-1)

    is_whole = ended & (final - first < _ring_length(buffer))  # else its first slot is already overwritten
    steps, finals, firsts = slots(position, valid), slots(final, ended), slots(first, is_whole)

    def put(into: Array, where: Array, values: Array | None) -> Array:
        assert values is not None
        return into.at[where].set(values.reshape(-1, *values.shape[2:]).astype(into.dtype), mode="drop")

    link = put(put(buffer.link, steps, position - first), finals, final - first)
    kind = put(buffer.kind, steps, jnp.where(rollout.terminated, TERMINAL, STEP))
    return ReplayBuffer(
        observation=put(put(buffer.observation, steps, rollout.observation), finals, rollout.final_observation),
        action=put(buffer.action, steps, rollout.action),
        reward=put(put(buffer.reward, steps, rollout.reward), finals, rollout.episode_return),
        link=put(link, firsts, first - final),
        kind=put(kind, finals, jnp.full_like(position, FINAL)),
        written=behind[-1],
        begun=starts[-1],
        ended=jnp.maximum(buffer.ended, jnp.where(ended, final, -1).max(0)),
    )


def drop_running_episodes(buffer: ReplayBuffer) -> ReplayBuffer:
    """End the running episodes without a result, as when environments could not be restored.

    They never finish, and their latest step is no transition: nobody knows where it led.
    """
    running = buffer.written > buffer.begun
    latest = jnp.where(running, slot(buffer, jnp.arange(running.size), buffer.written - 1), buffer.kind.shape[0])
    return buffer._replace(kind=buffer.kind.at[latest].set(EMPTY, mode="drop"), begun=buffer.written)


def latest_episodes(buffer: ReplayBuffer) -> tuple[Episodes, Array]:
    """Return each environment's latest finished episode, and whether all of it is still stored; [N]."""
    envs, oldest = jnp.arange(buffer.ended.size), jnp.maximum(buffer.written - _ring_length(buffer), 0)
    length = buffer.link[slot(buffer, envs, buffer.ended)]
    start = buffer.ended - length
    return Episodes(envs, start, length), (buffer.ended >= oldest) & (start >= oldest)


def has_finished_episode(buffer: ReplayBuffer) -> Array:
    """Return whether a finished episode is stored as a whole."""
    return latest_episodes(buffer)[1].any()


def has_transition(buffer: ReplayBuffer) -> Array:
    """Return whether there is a step whose next observation is known."""
    return (buffer.written - buffer.begun > 1).any() | has_finished_episode(buffer)


def has_overlong_episode(buffer: ReplayBuffer) -> Array:
    """Return whether a running episode has outgrown its ring: it will never be stored as a whole."""
    return (buffer.written - buffer.begun >= _ring_length(buffer)).any()


def _sample(buffer: ReplayBuffer, key: Array, shape: tuple[int, ...], fits: Callable[[Array, Array], Array]) -> Array:
    """Sample (environments, positions) [2, *shape], uniform over what fits; something must.

    The remainder of 32 random bits favors the first slots by less than N·L/2³², one in four thousand for a million.
    """
    num_envs, length = buffer.written.shape[0], _ring_length(buffer)
    filled = jnp.minimum(buffer.written, length)
    candidates = (num_envs * filled.max()).astype(jnp.uint32)

    def is_legal(choice: Array) -> Array:
        env, position = choice[0], choice[1]
        return (position >= buffer.written[env] - filled[env]) & (position >= 0) & fits(env, position)

    def retry(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        tries, choice, legal = carry
        number = (jax.random.bits(jax.random.fold_in(key, tries), shape) % candidates).astype(jnp.int32)
        env = number % num_envs
        choice = jnp.where(legal, choice, jnp.stack([env, buffer.written[env] - 1 - number // num_envs]))
        return tries + 1, choice, is_legal(choice)

    nothing = (jnp.zeros((), jnp.int32), jnp.zeros((2, *shape), jnp.int32), jnp.zeros(shape, bool))
    choice: Array = jax.lax.while_loop(lambda carry: ~carry[2].all(), retry, nothing)[1]
    return choice


def sample_transitions(buffer: ReplayBuffer, key: Array, shape: tuple[int, ...]) -> Array:
    """Sample (environments, positions) [2, *shape] of transitions whose next observation is stored."""

    def fits(env: Array, position: Array) -> Array:
        kind = buffer.kind[slot(buffer, env, position)]
        return ((kind == STEP) | (kind == TERMINAL)) & (position + 1 < buffer.written[env])

    return _sample(buffer, key, shape, fits)


def sample_episodes(buffer: ReplayBuffer, key: Array, shape: tuple[int, ...]) -> Episodes:
    """Sample whole finished episodes in proportion to their length; `has_finished_episode` must hold."""

    def episode(env: Array, position: Array) -> tuple[Array, Array]:
        start = position - jnp.maximum(buffer.link[slot(buffer, env, position)], 0)
        return start, -buffer.link[slot(buffer, env, start)]

    def fits(env: Array, position: Array) -> Array:
        kind = buffer.kind[slot(buffer, env, position)]
        start, length = episode(env, position)
        is_stored = start >= buffer.written[env] - _ring_length(buffer)
        return ((kind == STEP) | (kind == TERMINAL)) & is_stored & (length > 0)

    env, position = _sample(buffer, key, shape, fits)
    return Episodes(env, *episode(env, position))


def returns_of(buffer: ReplayBuffer, episodes: Episodes) -> Array:
    """Return the undiscounted returns of episodes."""
    return buffer.reward[slot(buffer, episodes.env, episodes.start + episodes.length)]


def episodic_rewards(buffer: ReplayBuffer, env: Array, position: Array) -> Array:
    """Return the rewards of transitions as an episodic environment gives them: the return at the end, 0 before."""
    following = slot(buffer, env, position + 1)
    return jnp.where(buffer.kind[following] == FINAL, buffer.reward[following], 0.0)
