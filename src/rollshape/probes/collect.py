"""Data of a checkpoint's policy from environments of the probe's own, so that the run's N limits nothing.

Stationary: every environment takes 2 to 3 episode lengths of steps first, how many is drawn for each alone, so that no
two share a phase; the length is that of the longest episode that other environments played in as many steps as an
episode may take. Or the run's own states. Normalisers of the run are constants here. Where a host environment only
resets there is no transition, and that step is left out: all T steps of a window are transitions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.distributions import ActionDistribution, sample
from rollshape.agents.networks import ActorCritic
from rollshape.agents.normalizer import Moments, normalize_obs, scale_reward
from rollshape.agents.policy import Policy
from rollshape.envs.functional import Episode, FunctionalEnv
from rollshape.envs.host import HostEnv, Values
from rollshape.envs.registry import make_host
from rollshape.errors import RequestError
from rollshape.gradients.intervals import MIN_ENVS
from rollshape.probes.stationary import BURN_IN, stationary
from rollshape.training.loop import RunState, Trainer, on_one_device
from rollshape.training.rollout import Rollout, collect
from rollshape.training.spec import Spec
from rollshape.training.streams import stream_key
from rollshape.training.update import advantages

Start = Literal["stationary", "run"]
DEFAULT_ENVS = 256
PIECE, TOGETHER = 64, 128  # steps that are collected in one call, and environments at most: programs for any T and N


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
        return stream if self._rewards is None else stream._replace(reward=scale_reward(self._rewards, stream.reward))


class FunctionalSource(Source):
    """Fresh environments in every draw, or the run's own states."""

    def __init__(self, trainer: Trainer, state: RunState, num_envs: int, begin: Start) -> None:
        super().__init__(trainer, state, num_envs)
        assert isinstance(trainer.env, FunctionalEnv)
        self.env = trainer.env
        self._episodes = jax.device_put(state.episodes, jax.local_devices()[0]) if begin == "run" else None
        self._parts = 1 if begin == "run" else math.ceil(num_envs / TOGETHER)
        if begin == "stationary":
            key = stream_key(self.spec.seed, "probe", 2**31 - 1)
            self._length = int(self._burnt(key, (self.env.horizon, self.env.horizon + 1))[1])

    def draw(self, num_steps: int, tail: int, key: Array) -> Stream:
        length = num_steps + tail
        parts = [self._pieces(num_steps, length, own) for own in jax.random.split(key, self._parts)]
        return self._rewarded(_joined(parts, self.num_envs, num_steps, length))

    def _pieces(self, num_steps: int, length: int, key: Array) -> list[Stream]:
        """What some environments do, and a little more, in pieces."""
        burn, rest = jax.random.split(key)
        episodes = self._episodes
        if self.burn_in is not None:
            episodes, _ = self._burnt(burn, self.burn_in)
        pieces = []
        for first in range(0, length, PIECE):
            own = jax.random.fold_in(rest, first)
            episodes, piece = _followed(self.env, self.policy, self.model, self.moments, episodes, own)
            pieces.append(piece if first < num_steps else piece._replace(observation=None, action=None))
        return pieces

    def _burnt(self, key: Array, burn_in: tuple[int, int]) -> tuple[Episode, Array]:
        some = math.ceil(self.num_envs / self._parts)
        found: tuple[Episode, Array] = stationary(self.env, self.policy, some, self.model, self.moments, key, burn_in)
        return found


def _joined(parts: list[list[Stream]], num_envs: int, num_steps: int, length: int) -> Stream:
    """Some environments' pieces, one after the other in time, for all environments: observations and actions up to T,
    the rest up to L. NumPy's, for every slice of JAX's is a program of its own."""
    ends = Stream(num_steps, num_steps, length + 1, *[length] * 5)  # type: ignore[arg-type]

    def whole(name: str) -> Array:
        end, first = getattr(ends, name), getattr(parts[0][0], name)
        out = np.empty((num_envs, end, *first.shape[2:]), first.dtype)
        rows = 0
        for pieces in parts:
            for i, piece in enumerate(getattr(each, name) for each in pieces):
                if piece is not None:
                    kept = np.asarray(piece)[: num_envs - rows, : end - i * PIECE]
                    out[rows : rows + len(kept), i * PIECE : i * PIECE + kept.shape[1]] = kept
            rows += first.shape[0]
        return jnp.asarray(out)

    return Stream(*map(whole, Stream._fields))


@partial(jax.jit, static_argnums=(0, 1))
def _followed(
    env: FunctionalEnv,
    policy: ActionDistribution,
    model: ActorCritic,
    moments: Moments | None,
    episodes: Episode,
    key: Array,
) -> tuple[Episode, Stream]:
    """The next steps, always as many: one program so serves every T."""
    act, move = jax.random.split(key)
    episodes, rollout = collect(env, Policy(model, moments, policy), episodes, (act, move), PIECE)
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
        self._values = jax.jit(lambda observation: self.model.value(normalize_obs(self.moments, observation)))
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
            outcome = env.step(env.clip_action(action))
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
        return self._rewarded(stream._replace(observation=normalize_obs(self.moments, stream.observation)))

    def _longest(self, key: Array) -> int:
        """Steps of the longest episode that the pool plays within the horizon, from a reset."""
        env, longest = self.env, 0
        env.reset(int(jax.random.bits(key, (), jnp.uint32) >> 1))
        for i in range(env.horizon):
            action, _ = self._act(jax.random.fold_in(key, i), env.current)
            longest = max(longest, int(env.elapsed.max()) + 1)
            env.step(env.clip_action(np.asarray(action)))
        return longest

    def _chosen(self, key: Array, observation: Array) -> tuple[Array, Array]:
        outputs, value = self.model(normalize_obs(self.moments, observation))
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
    same = replace(spec, env_kwargs=None)  # hashable
    size = observed if num_steps is None else observed // num_steps * num_steps
    edge = (np.arange(length) + 1) % steps == 0
    estimate, target = (
        np.asarray(x)[:, :size] for x in _estimates(same, stream, edge, spec.gae_lambda if lam is None else lam)
    )
    if spec.algo == "reinforce" and spec.baseline == "mean":
        estimate = estimate - estimate.mean()
    return estimate, target


@partial(jax.jit, static_argnums=0)
def _estimates(spec: Spec, stream: Stream, edge: Values, lam: float) -> tuple[Array, Array]:
    """A window's edge is a time limit: it bootstraps from where the step led and cuts the trace. One program so serves
    every T and λ."""
    cut = edge & ~stream.terminated & ~stream.truncated
    blank: Any = None
    rollout = Rollout(
        observation=blank, raw_observation=None, action=blank, log_prob=blank, value=stream.value[:, :-1].T,
        reward=stream.reward.T, terminated=stream.terminated.T, truncated=(stream.truncated | cut).T,
        final_value=jnp.where(cut, stream.value[:, 1:], stream.final_value).T, steps=blank, episode_return=blank,
        episode_length=blank, last_value=stream.value[:, -1],
    )  # fmt: skip
    estimate, target = advantages(spec, rollout, lam)
    return estimate.T, target.T
