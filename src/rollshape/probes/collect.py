"""Data of a checkpoint's policy from environments of the probe's own, so that the run's N limits nothing.

Stationary: every environment takes 2 to 3 episode lengths of steps first, how many is drawn for each alone, so that no
two share a phase; the length is that of the longest episode that other environments played in as many steps as an
episode may take. Or the run's own states. Normalisers of the run are constants here. Where a host environment only
resets there is no transition, and that step is left out: all T steps of a window are transitions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.distributions import Policy, sample
from rollshape.agents.networks import ActorCritic
from rollshape.envs.functional import Episode, FunctionalEnv, start
from rollshape.envs.host import HostEnv, Values
from rollshape.envs.registry import make_host
from rollshape.errors import RequestError
from rollshape.gradients.intervals import MIN_ENVS
from rollshape.probes.stationary import BURN_IN, moved, stationary
from rollshape.training.loop import RunState, Trainer, on_one_device
from rollshape.training.normaliser import Moments, scale, seen
from rollshape.training.rollout import Rollout, collect
from rollshape.training.spec import Spec
from rollshape.training.streams import stream_key
from rollshape.training.update import advantages

Start = Literal["stationary", "run"]
DEFAULT_ENVS = 256
PIECE = 64  # steps that are collected in one call


class Stream(NamedTuple):
    """N environments × L steps, [N, L, …]; observations and actions of the first T ≤ L of them."""

    observation: Array  # [N, T, …] as the network saw it
    action: Array
    value: Array  # [N, L + 1]: also after the last step
    reward: Array  # [N, L]
    terminated: Array
    truncated: Array
    final_value: Array  # V(final observation) where truncated, else 0
    steps: Array  # of the episode before the action


class Source(ABC):
    """N environments that can be drawn from again and again, independently."""

    def __init__(self, trainer: Trainer, state: RunState, num_envs: int) -> None:
        self.spec, self.policy, self.num_envs = trainer.spec, trainer.policy, num_envs
        self.model, self.moments = on_one_device(state)
        self._rewards: Moments | None = jax.device_put(state.rewards, jax.local_devices()[0])
        self._length: int | None = None

    @property
    def burn_in(self) -> tuple[int, int] | None:
        """Steps of every environment before it is drawn from: at least, and less than; None for the run's states."""
        return None if self._length is None else (BURN_IN[0] * self._length, BURN_IN[1] * self._length)

    @abstractmethod
    def draw(self, num_steps: int, tail: int, key: Array) -> Stream:
        """T steps of all environments and a tail without observations, independent of every other draw."""

    def close(self) -> None:  # noqa: B027
        """Give back what environments hold."""

    def _rewarded(self, stream: Stream) -> Stream:
        return stream if self._rewards is None else stream._replace(reward=scale(self._rewards, stream.reward))


class FunctionalSource(Source):
    """Fresh environments in every draw, or the run's own states."""

    def __init__(self, trainer: Trainer, state: RunState, num_envs: int, begin: Start) -> None:
        super().__init__(trainer, state, num_envs)
        assert isinstance(trainer.env, FunctionalEnv)
        self.env = trainer.env
        self._episodes = jax.device_put(state.episodes, jax.local_devices()[0]) if begin == "run" else None
        if begin == "stationary":
            key = stream_key(self.spec.seed, "probe", 2**31 - 1)
            self._length = int(_longest(self.env, self.policy, num_envs, self.model, self.moments, key))

    def draw(self, num_steps: int, tail: int, key: Array) -> Stream:
        burn, rest = jax.random.split(key)
        acting = (self.env, self.policy)
        episodes = self._episodes
        if episodes is None:
            episodes = stationary(*acting, self.num_envs, self.model, self.moments, burn, self.burn_in)
        pieces = []
        for first in range(0, num_steps + tail, PIECE):
            own = jax.random.fold_in(rest, first)
            episodes, piece = _followed(*acting, self.model, self.moments, episodes, own)
            pieces.append(piece if first < num_steps else piece._replace(observation=None, action=None))
        return self._rewarded(_joined(pieces, num_steps, num_steps + tail))


@partial(jax.jit, static_argnums=(0, 1, 2))
def _longest(
    env: FunctionalEnv, policy: Policy, num_envs: int, model: ActorCritic, moments: Moments | None, key: Array
) -> Array:
    """Steps of the longest episode that N environments play within the horizon."""
    fresh, rest = jax.random.split(key)

    def step(i: Array, carry: tuple[Episode, Array]) -> tuple[Episode, Array]:
        episodes, longest = carry
        following = moved(env, policy, model, moments, episodes, jax.random.fold_in(rest, i))
        return following, jnp.maximum(longest, episodes.steps.max() + 1)

    begun = jax.vmap(partial(start, env))(jax.random.split(fresh, num_envs))
    longest: Array = jax.lax.fori_loop(0, env.horizon, step, (begun, jnp.zeros((), jnp.int32)))[1]
    return longest


def _joined(pieces: list[Stream], num_steps: int, length: int) -> Stream:
    """Pieces one after the other: observations and actions up to T, the rest up to L. NumPy's, for every slice of JAX's
    is a program of its own."""

    def whole(parts: Iterable[Any], end: int) -> Array:
        return jnp.asarray(np.concatenate([np.asarray(part) for part in parts if part is not None], 1)[:, :end])

    observation, action, values, *rest = zip(*pieces, strict=True)
    return Stream(
        whole(observation, num_steps),
        whole(action, num_steps),
        whole([*(np.asarray(value)[:, :-1] for value in values), np.asarray(values[-1])[:, -1:]], length + 1),
        *(whole(parts, length) for parts in rest),
    )


@partial(jax.jit, static_argnums=(0, 1))
def _followed(
    env: FunctionalEnv, policy: Policy, model: ActorCritic, moments: Moments | None, episodes: Episode, key: Array
) -> tuple[Episode, Stream]:
    """The next steps, always as many: one program so serves every T."""
    act, move = jax.random.split(key)
    episodes, rollout = collect(env, policy, model, moments, episodes, (act, move), PIECE)
    return episodes, Stream(
        jnp.swapaxes(rollout.observation, 0, 1),
        jnp.swapaxes(rollout.action, 0, 1),
        jnp.concatenate([rollout.value.T, rollout.last_value[:, None]], 1),
        *(x.T for x in (rollout.reward, rollout.terminated, rollout.truncated, rollout.final_value, rollout.steps)),
    )


class HostSource(Source):
    """One pool of host environments. From one draw to the next each goes on for 1 to 2 episode lengths."""

    def __init__(self, trainer: Trainer, state: RunState, num_envs: int) -> None:
        super().__init__(trainer, state, num_envs)
        self.env: HostEnv = make_host(self.spec.env, num_envs, **(self.spec.env_kwargs or {}))
        self._act = jax.jit(self._chosen)
        self._values = jax.jit(lambda observation: self.model.value(seen(self.moments, observation)))
        self._length = self._longest(stream_key(self.spec.seed, "probe", 2**31 - 1))
        self._drawn = False

    def close(self) -> None:
        self.env.close()

    def draw(self, num_steps: int, tail: int, key: Array) -> Stream:
        env, length, envs = self.env, num_steps + tail, np.arange(self.num_envs)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        assert self.burn_in is not None
        assert self._length is not None
        less = self._length if self._drawn else 0
        self._drawn = True
        counted = -(rng.integers(*self.burn_in, self.num_envs) - less)  # transitions since the window's begin
        blank: dict[str, Any] = {}
        i = 0
        while counted.min() <= length:
            observed, elapsed = env.current.copy(), env.elapsed  # a backend may write over its observations
            action, value = (np.asarray(x) for x in self._act(jax.random.fold_in(key, i), observed))
            outcome = env.step(env.bounded(action))
            i += 1
            final = np.zeros(self.num_envs, np.float32)
            if outcome.truncated.any():
                final = np.where(outcome.truncated, self._values(outcome.final_observation), 0.0)
            columns = {
                "observation": (observed, num_steps), "action": (action, num_steps), "value": (value, length + 1),
                "reward": (outcome.reward, length), "terminated": (outcome.terminated, length),
                "truncated": (outcome.truncated, length), "final_value": (final, length), "steps": (elapsed, length),
            }  # fmt: skip
            for name, (column, count) in columns.items():
                if name not in blank:
                    blank[name] = np.zeros((self.num_envs, count, *column.shape[1:]), column.dtype)
                kept = outcome.valid & (counted >= 0) & (counted < count)
                blank[name][envs[kept], counted[kept]] = column[kept]
            counted += outcome.valid
        stream = Stream(**{name: jnp.asarray(column) for name, column in blank.items()})
        return self._rewarded(stream._replace(observation=seen(self.moments, stream.observation)))

    def _longest(self, key: Array) -> int:
        """Steps of the longest episode that the pool plays within the horizon, from a reset."""
        env, longest = self.env, 0
        env.reset(int(jax.random.bits(key, (), jnp.uint32) >> 1))
        for i in range(env.horizon):
            action, _ = self._act(jax.random.fold_in(key, i), env.current)
            longest = max(longest, int(env.elapsed.max()) + 1)
            env.step(env.bounded(np.asarray(action)))
        return longest

    def _chosen(self, key: Array, observation: Array) -> tuple[Array, Array]:
        outputs, value = self.model(seen(self.moments, observation))
        return sample(self.policy, key, outputs), value


def source(trainer: Trainer, state: RunState, num_envs: int | None, begin: Start) -> Source:
    """Where the probe's data comes from, or a RequestError that says why not."""
    own = trainer.plan.num_envs
    if begin == "run" and num_envs not in (None, own):
        raise RequestError(
            "contradiction",
            f"The run has {own} environments: their states cannot start {num_envs}.",
            "Leave --num-envs out, or use --start stationary.",
        )
    count = own if begin == "run" else num_envs or DEFAULT_ENVS
    if count < MIN_ENVS:
        fix = "Use --start stationary." if begin == "run" else f"Use --num-envs {MIN_ENVS} or more."
        raise RequestError(
            "independent-environments",
            f"A probe needs at least {MIN_ENVS} independent environments; got {count}.",
            fix,
        )
    if isinstance(trainer.env, FunctionalEnv):
        return FunctionalSource(trainer, state, count, begin)
    if begin == "run":
        raise RequestError(
            "environment",
            f"{trainer.spec.env} runs on the host: it cannot be set to the run's states again and again.",
            "Use --start stationary.",
        )
    return HostSource(trainer, state, count)


def estimates(
    spec: Spec, stream: Stream, num_steps: int | None = None, lam: float | None = None
) -> tuple[Values, Values]:
    """(advantages, value targets), as training has them, of windows of T steps, [N, S]: S observed steps, as many as
    whole windows take. Without T there is no edge: the tail is looked at as far as it goes.

    REINFORCE's mean baseline is the mean of all: a constant.
    """
    observed, length = stream.action.shape[1], stream.reward.shape[1]
    steps = num_steps or length
    asked = replace(spec, env_kwargs=None, gae_lambda=spec.gae_lambda if lam is None else lam)  # hashable
    size = observed if num_steps is None else observed // num_steps * num_steps
    edge = (np.arange(length) + 1) % steps == 0
    estimate, target = (np.asarray(x)[:, :size] for x in _estimates(asked, stream, edge))
    if spec.algo == "reinforce" and spec.baseline == "mean":
        estimate = estimate - estimate.mean()
    return estimate, target


@partial(jax.jit, static_argnums=0)
def _estimates(spec: Spec, stream: Stream, edge: Values) -> tuple[Array, Array]:
    """A window's edge is a time limit: it bootstraps from where the step led and cuts the trace. One program so serves
    every T."""
    cut = edge & ~stream.terminated & ~stream.truncated
    blank: Any = None
    rollout = Rollout(
        observation=blank, raw_observation=None, action=blank, log_prob=blank, value=stream.value[:, :-1].T,
        reward=stream.reward.T, terminated=stream.terminated.T, truncated=(stream.truncated | cut).T,
        final_value=jnp.where(cut, stream.value[:, 1:], stream.final_value).T, steps=blank, episode_return=blank,
        episode_length=blank, last_value=stream.value[:, -1],
    )  # fmt: skip
    estimate, target = advantages(spec, rollout)
    return estimate.T, target.T
