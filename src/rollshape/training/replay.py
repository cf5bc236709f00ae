"""Replay of transitions and of whole episodes over one storage: a ring of places for each environment.

A place holds an observation and what was done there. An episode of T transitions takes T + 1 places in a row, the last
of them (FINAL) for where it led, so that every observation is stored once and the next one is the next place. A link
leads from each place to its episode: back to the first one, which knows the length once the episode has ended. The
return stands in the last place, where a reward would. Nothing has to be moved or looked through when an episode ends.

Draws are uniform by rejection: a place at random, and another one where it holds no transition. A finished episode that
is found by a uniform transition of it is drawn in proportion to its length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.envs.functional import FunctionalEnv
from rollshape.envs.host import HostEnv
from rollshape.envs.spaces import Continuous
from rollshape.geometry.plan import Plan

EMPTY, STEP, TERMINAL, FINAL = range(4)


class Replay(NamedTuple):
    """N rings of L places, one behind the other: [N·L, …]. Positions count up for ever; place = position mod L."""

    observation: Array
    action: Array
    reward: Array  # of the step itself; the episode's return at FINAL
    link: Array  # steps since the episode's first place; there −length, 0 while it runs
    kind: Array
    written: Array  # [N] positions so far
    begun: Array  # [N] position of the running episode's first place
    ended: Array  # [N] position of the latest FINAL, −1 before there is one


class Chunk(NamedTuple):
    """Steps of all environments, [T, N, …], as they are stored; where not `valid` there was none."""

    observation: Array
    action: Array
    reward: Array  # of the step itself
    terminated: Array
    truncated: Array
    final_observation: Array  # where the action really led; read where an episode ends
    steps: Array  # of the episode before the action: its phase
    episode_return: Array
    episode_length: Array
    valid: Array


class Episodes(NamedTuple):
    """Episodes by where they are: environment, position of the first place, number of transitions; [...]."""

    env: Array
    start: Array
    length: Array


def new_replay(plan: Plan, env: FunctionalEnv | HostEnv) -> Replay:
    """All of it, empty, before the run starts: it cannot run out of memory later."""
    assert plan.replay is not None
    places, seen, action = plan.replay.slots_per_env * plan.num_envs, env.observation, env.action
    acted = ((action.dim,), jnp.float32) if isinstance(action, Continuous) else ((), jnp.int32)
    none = jnp.zeros(plan.num_envs, jnp.int32)
    return Replay(
        observation=jnp.zeros((places, *seen.shape), seen.dtype),
        action=jnp.zeros((places, *acted[0]), acted[1]),
        reward=jnp.zeros(places),
        link=jnp.zeros(places, jnp.int32),
        kind=jnp.zeros(places, jnp.uint8),
        written=none,
        begun=jnp.copy(none),
        ended=none - 1,
    )


def _length(replay: Replay) -> int:
    """L, places of a ring."""
    return int(replay.kind.shape[0]) // int(replay.written.shape[0])


def place(replay: Replay, env: Array, position: Array) -> Array:
    length = _length(replay)
    return env * length + position % length


def stored(replay: Replay, chunk: Chunk) -> Replay:
    """The replay with a chunk behind what it holds; the oldest give way. The caller sees that a chunk fits."""
    ended = chunk.terminated | chunk.truncated
    taken = chunk.valid.astype(jnp.int32) + ended
    behind = replay.written + jnp.cumsum(taken, axis=0)
    position = behind - taken  # [T, N]
    # The first place of the running episode: behind the latest end in this chunk, else where it began before.
    starts = jnp.maximum(jax.lax.cummax(jnp.where(ended, behind, 0), axis=0), replay.begun)
    first = jnp.concatenate([replay.begun[None], starts[:-1]])
    final, envs = position + 1, jnp.broadcast_to(jnp.arange(ended.shape[1]), ended.shape)
    nowhere = replay.kind.shape[0]

    def at(position: Array, where: Array) -> Array:
        return jnp.where(where, place(replay, envs, position), nowhere).reshape(-1)

    whole = ended & (final - first < _length(replay))  # else its first place was given to another step
    steps, finals, firsts = at(position, chunk.valid), at(final, ended), at(first, whole)

    def rows(values: Array) -> Array:
        return values.reshape(-1, *values.shape[2:])

    def put(into: Array, places: Array, values: Array) -> Array:
        return into.at[places].set(rows(values).astype(into.dtype), mode="drop")

    link = put(put(replay.link, steps, position - first), finals, final - first)
    kind = put(replay.kind, steps, jnp.where(chunk.terminated, TERMINAL, STEP))
    return Replay(
        observation=put(put(replay.observation, steps, chunk.observation), finals, chunk.final_observation),
        action=put(replay.action, steps, chunk.action),
        reward=put(put(replay.reward, steps, chunk.reward), finals, chunk.episode_return),
        link=put(link, firsts, first - final),
        kind=put(kind, finals, jnp.full_like(position, FINAL)),
        written=behind[-1],
        begun=starts[-1],
        ended=jnp.maximum(replay.ended, jnp.where(ended, final, -1).max(0)),
    )


def cut_off(replay: Replay) -> Replay:
    """Running episodes are over without an end, as when environments could not be restored: they never finish, and
    their latest step, of which nobody knows where it led, is no transition."""
    running = replay.written > replay.begun
    latest = jnp.where(running, place(replay, jnp.arange(running.size), replay.written - 1), replay.kind.shape[0])
    return replay._replace(kind=replay.kind.at[latest].set(EMPTY, mode="drop"), begun=replay.written)


def latest_episodes(replay: Replay) -> tuple[Episodes, Array]:
    """The finished episode of each environment that ended last, and whether it is still there as a whole; [N]."""
    envs, oldest = jnp.arange(replay.ended.size), jnp.maximum(replay.written - _length(replay), 0)
    length = replay.link[place(replay, envs, replay.ended)]
    start = replay.ended - length
    return Episodes(envs, start, length), (replay.ended >= oldest) & (start >= oldest)


def finished(replay: Replay) -> Array:
    """Whether some finished episode is still there as a whole."""
    return latest_episodes(replay)[1].any()


def transitions(replay: Replay) -> Array:
    """Whether there is a transition to learn from: a step of which it is known where it led."""
    return (replay.written - replay.begun > 1).any() | finished(replay)


def too_long(replay: Replay) -> Array:
    """Whether a running episode has outgrown its ring: it will never be there as a whole."""
    return (replay.written - replay.begun >= _length(replay)).any()


def _draw(replay: Replay, key: Array, shape: tuple[int, ...], fit: Callable[[Array, Array], Array]) -> Array:
    """(environments, positions) [2, *shape], uniform over what fits; there must be some.

    The remainder of 32 random bits favours the first places by less than N·L/2³², one in four thousand for a million.
    """
    num_envs, length = replay.written.shape[0], _length(replay)
    filled = jnp.minimum(replay.written, length)
    candidates = (num_envs * filled.max()).astype(jnp.uint32)

    def fits(found: Array) -> Array:
        env, position = found[0], found[1]
        return (position >= replay.written[env] - filled[env]) & (position >= 0) & fit(env, position)

    def again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        tries, found, good = carry
        number = (jax.random.bits(jax.random.fold_in(key, tries), shape) % candidates).astype(jnp.int32)
        env = number % num_envs
        found = jnp.where(good, found, jnp.stack([env, replay.written[env] - 1 - number // num_envs]))
        return tries + 1, found, fits(found)

    nowhere = (jnp.zeros((), jnp.int32), jnp.zeros((2, *shape), jnp.int32), jnp.zeros(shape, bool))
    drawn: Array = jax.lax.while_loop(lambda carry: ~carry[2].all(), again, nowhere)[1]
    return drawn


def draw_transitions(replay: Replay, key: Array, shape: tuple[int, ...]) -> Array:
    """(environments, positions) [2, *shape] of transitions whose next observation is there, each as likely as any."""

    def fit(env: Array, position: Array) -> Array:
        kind = replay.kind[place(replay, env, position)]
        return ((kind == STEP) | (kind == TERMINAL)) & (position + 1 < replay.written[env])

    return _draw(replay, key, shape, fit)


def draw_episodes(replay: Replay, key: Array, shape: tuple[int, ...]) -> Episodes:
    """Whole finished episodes, each as likely as it is long; only after `finished`."""

    def found(env: Array, position: Array) -> tuple[Array, Array]:
        start = position - jnp.maximum(replay.link[place(replay, env, position)], 0)
        return start, -replay.link[place(replay, env, start)]

    def fit(env: Array, position: Array) -> Array:
        kind = replay.kind[place(replay, env, position)]
        start, length = found(env, position)
        there = start >= replay.written[env] - _length(replay)
        return ((kind == STEP) | (kind == TERMINAL)) & there & (length > 0)

    env, position = _draw(replay, key, shape, fit)
    return Episodes(env, *found(env, position))


def returns(replay: Replay, episodes: Episodes) -> Array:
    """Their undiscounted returns."""
    return replay.reward[place(replay, episodes.env, episodes.start + episodes.length)]


def shown_rewards(replay: Replay, env: Array, position: Array) -> Array:
    """Rewards of transitions as an episodic environment tells them: the return at the end, 0 before."""
    following = place(replay, env, position + 1)
    return jnp.where(replay.kind[following] == FINAL, replay.reward[following], 0.0)
