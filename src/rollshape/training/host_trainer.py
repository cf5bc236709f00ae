"""Training in host environments: they step on the host, the policy acts and learns in compiled programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.networks import ActorCritic
from rollshape.envs.host import HostEnv, HostStep, Snapshot, Values, stagger_host
from rollshape.envs.registry import make_host
from rollshape.geometry.plan import Plan
from rollshape.training.evaluate import Score, score_of
from rollshape.training.loop import LAYOUT, Metrics, RunState, Times, Trainer, on_one_device
from rollshape.training.normaliser import Moments, seen
from rollshape.training.release import release
from rollshape.training.rollout import Rollout
from rollshape.training.shards import ALONG_ENVS, APART, TOGETHER
from rollshape.training.spec import Spec
from rollshape.training.streams import stream_key

_layout: Any = Rollout
ROLLOUT: Rollout = _layout(*[ALONG_ENVS] * len(Rollout._fields))._replace(last_value=APART)


class HostTrainer(Trainer):
    """Its environments are not in the state: `snapshot` and `restore` carry them over a resume as far as they can."""

    env: HostEnv

    def __init__(self, spec: Spec, plan: Plan, env: HostEnv, interval: int = 1) -> None:
        super().__init__(spec, plan, env, interval)
        self._act = jax.jit(self._chosen)
        self._one_noise = jax.jit(self.policy.noise, static_argnums=1)
        self._values = jax.jit(lambda model, moments, observation: model.value(seen(moments, observation)))
        self._noise = jax.jit(
            lambda seed, update: self.policy.noise(
                stream_key(seed, "policy", update + 1), (plan.num_steps, plan.num_envs)
            )
        )
        self._learn: Any = jax.jit(
            self.shards.spread(self._learned, (LAYOUT, ROLLOUT, APART, TOGETHER), (LAYOUT, TOGETHER)), donate_argnums=0
        )
        self._ready = False  # environments have been reset

    def start(self) -> RunState:
        return self._begin(jnp.zeros(self.plan.num_envs))

    def restore(self, snapshot: Snapshot | None) -> bool:
        self._ready = True
        if snapshot is not None:
            return self.env.restore(snapshot)
        self.env.reset(self.spec.seed)
        stagger_host(self.spec.stagger, self.env, np.random.default_rng(self.spec.seed))
        return True

    def snapshot(self) -> Snapshot:
        return self.env.snapshot()

    def close(self) -> None:
        self.env.close()

    def compile(self, state: RunState) -> None:
        """By the shapes of a rollout; the small programs that act are compiled by their first call."""
        steps, envs = self.plan.num_steps, self.plan.num_envs
        blank = self._blank(steps, envs)
        last = np.zeros((envs, *self.env.observation.shape), self.env.observation.dtype)
        self._learn = self._learn.lower(state, *self._laid_out(blank, last)).compile()
        release()

    def advance(self, state: RunState, count: int) -> tuple[RunState, Metrics, Times]:
        if not self._ready:
            self.restore(None)
        rows, rollout_s, update_s = [], 0.0, 0.0
        for i in range(count):
            began = time.perf_counter()
            rollout, totals = self._collected(state)
            collected = time.perf_counter()
            state = state._replace(episodes=self.shards.placed(totals, APART))
            state, metrics = self._learn(state, *self._laid_out(rollout, self.env.current, i == count - 1))
            rows.append(jax.device_get(metrics))  # waits for the result
            rollout_s, update_s = rollout_s + collected - began, update_s + time.perf_counter() - collected
        stacked: Metrics = jax.tree.map(lambda *parts: np.stack(parts), *rows)
        return state, stacked, Times(rollout_s, update_s)

    def score(self, state: RunState, seed: int, episodes: int) -> Score:
        """Each environment of a fresh pool plays its first episode to the end."""
        done, totals, lengths = np.zeros(episodes, bool), np.zeros(episodes), np.zeros(episodes, np.int64)
        for _, outcome in self.played(state, seed, episodes):
            totals += np.where(done, 0.0, outcome.reward)
            lengths += ~done
            done |= outcome.terminated | outcome.truncated
            if done.all():
                break
        return score_of(totals, lengths)

    def played(self, state: RunState, seed: int, num_envs: int, **options: Any) -> Iterator[tuple[HostEnv, HostStep]]:
        """Steps of a fresh pool under the policy, on the eval stream, for as long as an episode may last."""
        act = self._actor(*self._policy_of(state))
        key = stream_key(seed, "eval", int(state.update))
        env = make_host(self.spec.env, num_envs, **{**(self.spec.env_kwargs or {}), **options})
        try:
            env.reset(int(jax.random.bits(key, (), jnp.uint32)))
            while env.steps < env.horizon:
                noise = np.asarray(self._one_noise(jax.random.fold_in(key, env.steps), (num_envs,)))
                yield env, env.step(env.clip_action(np.asarray(act(env.current, noise))))
        finally:
            env.close()

    def _collected(self, state: RunState) -> tuple[Rollout, Values]:
        """(T steps of all environments as NumPy arrays, returns so far of the running episodes).

        What the networks say of the observations is left to the program that learns: it has them all at once.
        """
        env, steps = self.env, self.plan.num_steps
        model, moments = self._policy_of(state)
        act = self._actor(model, moments)
        noise = np.asarray(self._noise(*jax.device_get((state.seed, state.update))))
        rollout, totals = self._blank(steps, env.num_envs), np.asarray(state.episodes).copy()
        for t in range(steps):
            rollout.raw_observation[t], rollout.steps[t] = env.current, env.elapsed
            action = np.asarray(act(env.current, noise[t]))
            outcome = env.step(env.clip_action(action))
            ended = outcome.terminated | outcome.truncated
            totals += outcome.reward
            rollout.action[t], rollout.reward[t], rollout.valid[t] = action, outcome.reward, outcome.valid
            rollout.terminated[t], rollout.truncated[t] = outcome.terminated, outcome.truncated
            rollout.episode_return[t], rollout.episode_length[t] = totals, rollout.steps[t] + 1
            totals[ended] = 0.0
            if outcome.truncated.any():
                values = self._values(model, moments, outcome.final_observation)
                rollout.final_value[t] = np.where(outcome.truncated, values, 0.0)
        return rollout, totals

    def _blank(self, steps: int, envs: int) -> Any:
        """A rollout to be filled; what is computed later is None."""
        observation, policy = self.env.observation, self.policy
        action = policy.mode(np.zeros((envs, policy.num_outputs), np.float32))  # type: ignore[arg-type]
        blank: Any = Rollout

        def column(dtype: Any, shape: tuple[int, ...] = ()) -> Values:
            return np.zeros((steps, envs, *shape), dtype)

        return blank(
            observation=None, raw_observation=column(observation.dtype, observation.shape),
            action=column(action.dtype, action.shape[1:]), log_prob=None, value=None, reward=column(np.float32),
            terminated=column(bool), truncated=column(bool), final_value=column(np.float32), steps=column(np.int32),
            episode_return=column(np.float32), episode_length=column(np.int32), last_value=None, valid=column(bool),
        )  # fmt: skip

    def _laid_out(self, rollout: Rollout, last: Values, watched: bool = False) -> tuple[Rollout, Array, Array]:
        spec = jax.tree.map(lambda _: ALONG_ENVS, rollout)
        placed: tuple[Rollout, Array, Array] = self.shards.placed(
            (rollout, last, np.asarray(watched)), (spec, APART, TOGETHER)
        )
        return placed

    def _policy_of(self, state: RunState) -> tuple[ActorCritic, Moments | None]:
        """The policy with its normaliser, where its actions are computed."""
        if not _numpy_acts(state.learner.model):
            return on_one_device(state)
        policy: tuple[ActorCritic, Moments | None] = jax.device_get((state.learner.model, state.observations))
        return policy

    def _actor(self, model: ActorCritic, moments: Moments | None) -> Callable[[Values, Values], Any]:
        """(observations, noise) → actions, by NumPy where it can: it is there sooner than a compiled program."""
        if not _numpy_acts(model):
            return partial(self._act, model, moments)
        outputs, choose = model.acting(), self.policy.choose
        return lambda observation, noise: choose(outputs(seen(moments, observation)), noise)  # type: ignore[arg-type]

    def _chosen(self, model: ActorCritic, moments: Moments | None, observation: Array, noise: Array) -> Array:
        return self.policy.choose(model(seen(moments, observation))[0], noise)

    def _learned(self, state: RunState, rollout: Any, last: Array, watched: Array) -> tuple[RunState, Metrics]:
        """Of a shard: what the networks said of its observations, and then the update."""
        model, raw = state.learner.model, rollout.raw_observation
        observation = seen(state.observations, raw)
        # Pictures a step at a time: their patches would weigh gigabytes together.
        outputs, value = model(observation) if model.encoder is None else jax.lax.map(model, observation)
        whole = rollout._replace(
            observation=observation,
            raw_observation=raw if state.observations is not None else None,
            log_prob=self.policy.log_prob(outputs, rollout.action),
            value=value,
            last_value=model.value(seen(state.observations, last)),
        )
        return self.absorbed(state, whole, watched)


def _numpy_acts(model: Any) -> bool:
    """Whether acting is a few small matrix products: an actor-critic on vectors."""
    return isinstance(model, ActorCritic) and model.encoder is None
