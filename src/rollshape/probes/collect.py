"""Data from the policy of a checkpoint, collected in environments of the probe, whose number the run does not limit.

The environments start from the stationary distribution of the policy: each first takes 2 to 3 episode lengths of steps,
a random number of its own, so that they are at different steps of their episodes. The episode length is that of the
longest episode in a trial of as many steps as an episode may take. Alternatively they start from the environment states
of the run. The run's normalizers are constants here. A host environment that spends a step on its reset has no
transition in that step; such steps are left out, so that all T steps of a window are transitions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.distributions import sample
from rollshape.agents.normalizer import scale_reward
from rollshape.agents.policy import Policy
from rollshape.algorithms.base import Rollout
from rollshape.envs.functional import Episode, FunctionalEnv
from rollshape.envs.host import HostEnv, Values
from rollshape.envs.registry import make_host
from rollshape.errors import RequestError
from rollshape.gradients.intervals import MIN_ENVS
from rollshape.probes.stationary import BURN_IN, GROUP_ENVS, MOST_GROUPS, burn_in_of, stationary
from rollshape.probes.subject import Checkpoint, Estimator
from rollshape.quick_jit import quick_jit
from rollshape.training.rollout import collect_with_policy
from rollshape.training.streams import stream_key

Start = Literal["stationary", "run"]
DEFAULT_ENVS = 256
MIN_PADDED = 2048  # steps of the streams whose advantages are estimated
CHUNK_STEPS = 64  # collected by one call, so that one program serves every T


class Stream(NamedTuple):
    """N environments × L steps, [N, L, …]; observations and actions are those of the first T ≤ L steps."""

    observation: Array  # [N, T, …] as the network reads it
    action: Array
    value: Array  # [N, L + 1]: also after the last step
    reward: Array  # [N, L]
    terminated: Array
    truncated: Array
    final_value: Array  # V(final observation) where truncated, else 0
    steps: Array  # of the episode before the action


class Source(ABC):
    """N environments from which independent streams can be drawn."""

    def __init__(self, checkpoint: Checkpoint, num_envs: int) -> None:
        self.policy, self.num_envs = checkpoint.policy, num_envs
        self._reward_moments = checkpoint.reward_moments
        self.episode_length: int | None = None  # of the longest in a trial; None for the run's own states

    @property
    def burn_in(self) -> tuple[int, int] | None:
        """Steps of an environment before the first draw: at least, and less than; None for the run's own states."""
        length = self.episode_length
        return None if length is None else (BURN_IN[0] * length, BURN_IN[1] * length)

    @abstractmethod
    def draw(self, num_steps: int, tail: int, key: Array) -> Stream:
        """Return T steps of all environments and a tail without observations, independent of all other draws."""

    def close(self) -> None:  # noqa: B027
        """Release the environments."""

    def _scale_rewards(self, stream: Stream) -> Stream:
        if self._reward_moments is None:
            return stream
        return stream._replace(reward=scale_reward(self._reward_moments, stream.reward))


class FunctionalSource(Source):
    """Fresh environments in every draw, or the environment states of the run."""

    def __init__(self, checkpoint: Checkpoint, num_envs: int, start: Start) -> None:
        super().__init__(checkpoint, num_envs)
        assert isinstance(checkpoint.env, FunctionalEnv)
        self.env = checkpoint.env
        self._episodes = checkpoint.episodes if start == "run" else None
        self._num_groups = 1 if start == "run" else math.ceil(num_envs / GROUP_ENVS)
        if start == "stationary":
            key = stream_key(checkpoint.spec.seed, "probe", 2**31 - 1)
            horizon = self.env.horizon
            self.episode_length = int(self._burn_in(key, jnp.asarray([horizon, horizon + 1]))[1])

    def draw(self, num_steps: int, tail: int, key: Array) -> Stream:
        length = num_steps + tail
        groups = [
            self._collect_group(num_steps, length, group_key) for group_key in jax.random.split(key, self._num_groups)
        ]
        return self._scale_rewards(_join(groups, self.num_envs, num_steps, length))

    def _collect_group(self, num_steps: int, length: int, key: Array) -> list[Stream]:
        """Return at least `length` steps of one group of environments, in chunks."""
        burn_key, step_key = jax.random.split(key)
        episodes: Any = self._episodes
        if self.episode_length is not None:
            episodes, _ = self._burn_in(burn_key, burn_in_of(self.episode_length))
        chunks = []
        for first in range(0, length, CHUNK_STEPS):
            episodes, chunk = _collect_chunk(self.env, self.policy, episodes, jax.random.fold_in(step_key, first))
            unused: Any = None
            chunks.append(chunk if first < num_steps else chunk._replace(observation=unused, action=unused))
        return chunks

    def _burn_in(self, key: Array, burn_in: Array) -> tuple[Episode, Array]:
        group_size = math.ceil(self.num_envs / self._num_groups)
        result: tuple[Episode, Array] = stationary(self.env, self.policy, group_size, key, burn_in)
        return result


def _join(groups: list[list[Stream]], num_envs: int, num_steps: int, length: int) -> Stream:
    """Concatenate chunks along time and groups along environments, in NumPy: every JAX slice compiles a program.

    Observations and actions are cut at T, everything else at L.
    """
    ends = Stream(num_steps, num_steps, length + 1, *[length] * 5)  # type: ignore[arg-type]

    def concatenate(name: str) -> Array:
        end, first = getattr(ends, name), getattr(groups[0][0], name)
        out = np.empty((num_envs, end, *first.shape[2:]), first.dtype)
        row = 0
        for chunks in groups:
            for i, chunk in enumerate(getattr(stream, name) for stream in chunks):
                if chunk is not None:
                    part = np.asarray(chunk)[: num_envs - row, : end - i * CHUNK_STEPS]
                    out[row : row + len(part), i * CHUNK_STEPS : i * CHUNK_STEPS + part.shape[1]] = part
            row += first.shape[0]
        placed: Array = jax.device_put(out)  # jnp.asarray compiles a program for every shape
        return placed

    return Stream(*map(concatenate, Stream._fields))


@partial(quick_jit, jit=eqx.filter_jit, is_long=True)
def _collect_chunk(env: FunctionalEnv, policy: Policy, episodes: Episode, key: Array) -> tuple[Episode, Stream]:
    """Collect the next CHUNK_STEPS steps."""
    policy_key, env_key = jax.random.split(key)
    episodes, rollout = collect_with_policy(env, policy, episodes, (policy_key, env_key), CHUNK_STEPS)
    return episodes, Stream(
        jnp.swapaxes(rollout.observation, 0, 1),
        jnp.swapaxes(rollout.action, 0, 1),
        jnp.concatenate([rollout.value.T, rollout.last_value[:, None]], 1),
        *(x.T for x in (rollout.reward, rollout.terminated, rollout.truncated, rollout.final_value, rollout.steps)),
    )


class HostSource(Source):
    """One pool of host environments; between two draws every environment takes 1 to 2 episode lengths of steps."""

    def __init__(self, checkpoint: Checkpoint, num_envs: int) -> None:
        super().__init__(checkpoint, num_envs)
        spec = checkpoint.spec
        self.env: HostEnv = make_host(spec.env, num_envs, **(spec.env_kwargs or {}))
        self._act = jax.jit(self._sample_action)
        self._value = jax.jit(lambda observation: self.policy.value(observation))
        self.episode_length = self._longest_episode(stream_key(spec.seed, "probe", 2**31 - 1))
        self._has_drawn = False

    def close(self) -> None:
        self.env.close()

    def draw(self, num_steps: int, tail: int, key: Array) -> Stream:
        env, length, envs = self.env, num_steps + tail, np.arange(self.num_envs)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        assert self.burn_in is not None
        assert self.episode_length is not None
        already = self.episode_length if self._has_drawn else 0
        self._has_drawn = True
        position = -(rng.integers(*self.burn_in, self.num_envs) - already)  # transitions since the window began
        arrays: dict[str, Any] = {}
        i = 0
        while position.min() <= length:
            observation, elapsed = env.current.copy(), env.elapsed  # a backend may overwrite its observations
            action, value = (np.asarray(x) for x in self._act(jax.random.fold_in(key, i), observation))
            outcome = env.step(env.clip_action(action))
            i += 1
            final_value = np.zeros(self.num_envs, np.float32)
            if outcome.truncated.any():
                final_value = np.where(outcome.truncated, self._value(outcome.final_observation), 0.0)
            columns = {
                "observation": (observation, num_steps), "action": (action, num_steps), "value": (value, length + 1),
                "reward": (outcome.reward, length), "terminated": (outcome.terminated, length),
                "truncated": (outcome.truncated, length), "final_value": (final_value, length),
                "steps": (elapsed, length),
            }  # fmt: skip
            for name, (column, count) in columns.items():
                if name not in arrays:
                    arrays[name] = np.zeros((self.num_envs, count, *column.shape[1:]), column.dtype)
                in_window = outcome.valid & (position >= 0) & (position < count)
                arrays[name][envs[in_window], position[in_window]] = column[in_window]
            position += outcome.valid
        stream = Stream(**{name: jax.device_put(column) for name, column in arrays.items()})
        return self._scale_rewards(stream._replace(observation=self.policy.normalize(stream.observation)))

    def _longest_episode(self, key: Array) -> int:
        """Return the length of the longest episode that the pool plays within its horizon, starting from a reset."""
        env, longest = self.env, 0
        env.reset(int(jax.random.bits(key, (), jnp.uint32) >> 1))
        for i in range(env.horizon):
            action, _ = self._act(jax.random.fold_in(key, i), env.current)
            longest = max(longest, int(env.elapsed.max()) + 1)
            env.step(env.clip_action(np.asarray(action)))
        return longest

    def _sample_action(self, key: Array, observation: Array) -> tuple[Array, Array]:
        outputs, value = self.policy(observation)
        return sample(self.policy.distribution, key, outputs), value


def open_source(checkpoint: Checkpoint, num_envs: int | None, start: Start) -> Source:
    """Return the source of the probe's data, or raise a RequestError that says why there is none."""
    run_envs = checkpoint.plan.num_envs
    if start == "run" and num_envs not in (None, run_envs):
        raise RequestError(
            "contradiction",
            f"The run has {run_envs} environments: {num_envs} cannot start from their states.",
            "Omit --num-envs, or use --start stationary.",
        )
    count = run_envs if start == "run" else num_envs or DEFAULT_ENVS
    if count < MIN_ENVS:
        fix = "Use --start stationary." if start == "run" else f"Use --num-envs {MIN_ENVS} or more."
        raise RequestError(
            "independent-environments",
            f"A probe needs at least {MIN_ENVS} independent environments; got {count}.",
            fix,
        )
    if isinstance(checkpoint.env, FunctionalEnv):
        return FunctionalSource(checkpoint, count, start)
    if start == "run":
        raise RequestError(
            "environment",
            f"{checkpoint.spec.env} runs on the host: it cannot be set to the states of the run repeatedly.",
            "Use --start stationary.",
        )
    return HostSource(checkpoint, count)


def estimate_advantages(
    estimator: Estimator, stream: Stream, num_steps: int | None = None, lam: float | None = None
) -> tuple[Values, Values]:
    """Return (advantages, value targets) [N, S] of windows of T steps, as training computes them.

    S is the number of observed steps that fill whole windows. Without T there is no window edge, and the tail is used
    as far as it goes. The mean baseline of REINFORCE is the mean of all advantages, a constant.
    """
    observed, length = stream.action.shape[1], stream.reward.shape[1]
    size = observed if num_steps is None else observed // num_steps * num_steps
    edge = (np.arange(length) + 1) % (num_steps or length) == 0
    lam = estimator.gae_lambda if lam is None else lam
    unused: Any = None
    columns = stream._replace(observation=unused, action=unused)
    groups = [_advantages(estimator, *group, lam) for group in _padded_groups(columns, edge)]
    advantage, target = (np.concatenate(parts)[: len(stream.reward), :size] for parts in zip(*groups, strict=True))
    if estimator.centers_advantages:
        advantage = advantage - advantage.mean()
    return advantage, target


def _padded_groups(stream: Stream, edge: Values) -> Iterator[tuple[Stream, Values]]:
    """Yield groups of environments, padded along both axes, so that one program serves most shapes.

    The last real step of a stream is an edge of a window: nothing after it matters.
    """
    length = max(MIN_PADDED, 1 << (len(edge) - 1).bit_length())
    group_size = max(GROUP_ENVS, -(-len(stream.reward) // MOST_GROUPS))

    def pad(x: Any, first: int) -> Values:
        part = np.asarray(x)[first : first + group_size]
        out = np.zeros((group_size, part.shape[1] + length - len(edge)), part.dtype)
        out[: len(part), : part.shape[1]] = part
        return out

    padded_edge = np.pad(edge, (0, length - len(edge)))
    for first in range(0, len(stream.reward), group_size):
        yield jax.tree.map(partial(pad, first=first), stream), padded_edge


@partial(quick_jit, static_argnums=0)
def _advantages(estimator: Estimator, stream: Stream, edge: Values, lam: float) -> tuple[Array, Array]:
    """Treat a window's edge as a time limit: bootstrap from the next state and end the trace.

    One program thus serves every T and λ.
    """
    is_cut = edge & ~stream.terminated & ~stream.truncated
    unused: Any = None
    rollout = Rollout(
        observation=unused, raw_observation=None, action=unused, log_prob=unused, value=stream.value[:, :-1].T,
        reward=stream.reward.T, terminated=stream.terminated.T, truncated=(stream.truncated | is_cut).T,
        final_value=jnp.where(is_cut, stream.value[:, 1:], stream.final_value).T, steps=unused, episode_return=unused,
        episode_length=unused, last_value=stream.value[:, -1],
    )  # fmt: skip
    advantage, target = estimator.advantages(rollout, lam)
    return advantage.T, target.T
