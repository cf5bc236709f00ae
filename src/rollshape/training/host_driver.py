"""Training in host environments: they step on the host; the policy learns, and sometimes acts, in compiled programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.networks import ActorCritic
from rollshape.agents.normalizer import normalize_obs
from rollshape.algorithms.base import Rollout
from rollshape.algorithms.parallel import BY_ENV, REPLICATED, TIME_MAJOR
from rollshape.compiler_options import training_options
from rollshape.envs.access import EnvAccess
from rollshape.envs.host import HostEnv, HostStep, Snapshot, Values, stagger_host
from rollshape.envs.registry import make_host
from rollshape.geometry.memory import SCORE_ENVS
from rollshape.geometry.plan import Plan
from rollshape.training.driver import STATE_SPEC, Driver, RunState, Times, UpdateMetrics
from rollshape.training.evaluate import OnScore, Score
from rollshape.training.programs import find_or_compile
from rollshape.training.scoring import score_groups
from rollshape.training.spec import Spec
from rollshape.training.streams import group_key, stream_key

Actor = Callable[[Values, Values], Any]  # (observations, noise) → actions


class HostDriver(Driver):
    """Its environments are not in the state: `snapshot` and `restore` carry them over a resume as far as they can."""

    env: HostEnv

    def __init__(
        self,
        spec: Spec,
        plan: Plan,
        env: HostEnv,
        interval: int = 1,
        network: Any = None,
        access: EnvAccess | None = None,
    ) -> None:
        super().__init__(spec, plan, env, interval, network)
        self._access = access or EnvAccess()
        algorithm = self.algorithm
        self._act = jax.jit(
            lambda learner, moments, observation, noise: algorithm.act_fn(learner)(
                normalize_obs(moments, observation), noise
            )[0]
        )
        self._value = jax.jit(lambda policy, observation: policy.value(observation))
        draw, size = algorithm.distribution.draw_noise, (plan.num_steps, plan.num_envs)
        self._step_noise = jax.jit(lambda key, i, count: draw(jax.random.fold_in(key, i), (count,)), static_argnums=2)
        self._rollout_noise = jax.jit(lambda seed, update: draw(stream_key(seed, "policy", update + 1), size))
        self._blank = self._blank_rollout()
        specs = jax.tree.map(lambda _: TIME_MAJOR, self._blank)
        self._specs = (specs, BY_ENV, REPLICATED)
        self._learn: Any = jax.jit(
            self.parallel.shard_map(self._train, (STATE_SPEC, *self._specs), (STATE_SPEC, REPLICATED)),
            donate_argnums=0,
            compiler_options=training_options(),
        )
        self._is_reset = False  # the environments have been reset
        self._lost_episodes = False  # a resume could not restore the running episodes

    def initial_state(self, seed: Array) -> RunState:
        return self.new_state(seed, jnp.zeros(self.plan.num_envs))

    def restore(self, snapshot: Snapshot | None) -> bool:
        self._is_reset = True
        if snapshot is not None:
            self._lost_episodes = not self.env.restore(snapshot)
            return not self._lost_episodes
        self.env.reset(self.spec.seed)
        stagger_host(self.spec.stagger, self.env, np.random.default_rng(self.spec.seed))
        return True

    def snapshot(self) -> Snapshot:
        return self.env.snapshot()

    def hurry(self) -> None:
        self._access.hurry()

    def close(self) -> None:
        self.env.close()

    @property
    def env_key(self) -> Hashable:
        return self.env.observation, self.env.action, self.env.horizon

    def _find_program(self, state: Any) -> Any:
        """Return the program that learns; the small ones that act are compiled by their first call."""
        observation = self.env.observation
        last = np.zeros((self.plan.num_envs, *observation.shape), observation.dtype)
        return find_or_compile(
            self.program_key(),
            lambda: self._learn.lower(state, *self._place(self._blank, last)).compile(),
        )

    def advance(self, state: RunState, count: int) -> tuple[RunState, UpdateMetrics, Times]:
        if not self._is_reset:
            self.restore(None)
        if self._lost_episodes:
            self._lost_episodes = False
            state = self._forget_episodes(state)
        self.compile()
        rows, rollout_s, update_s = [], 0.0, 0.0
        for i in range(count):
            began = time.perf_counter()
            rollout, totals = self.collect(state)
            collected = time.perf_counter()
            state = state._replace(episodes=self.parallel.place(totals, BY_ENV))
            state, metrics = self._program(state, *self._place(rollout, self.env.current, i == count - 1))
            rows.append(jax.device_get(metrics))  # waits for the result
            rollout_s, update_s = rollout_s + collected - began, update_s + time.perf_counter() - collected
        stacked: UpdateMetrics = jax.tree.map(lambda *parts: np.stack(parts), *rows)
        return state, stacked, Times(rollout_s, update_s)

    def _forget_episodes(self, state: RunState) -> RunState:
        """Return the state without what belongs to the episodes that were lost."""
        normalizer = state.normalizer._replace(discounted=jnp.zeros(self.plan.num_envs))
        learner = self.algorithm.forget_episodes(state.learner)
        episodes = jnp.zeros(self.plan.num_envs)
        return self.place(state._replace(learner=learner, normalizer=normalizer, episodes=episodes))

    def score(
        self, state: RunState, seed: int, episodes: int, max_steps: int | None = None, on_score: OnScore | None = None
    ) -> Score:
        size = min(episodes, SCORE_ENVS)
        with closing(self.new_pool(size)) as pool:
            return score_groups(partial(self.play, pool, state, seed), size, episodes, max_steps, on_score)

    def new_pool(self, num_envs: int, **options: Any) -> HostEnv:
        """Return further environments of the run; `options` are passed on like `env_kwargs`."""
        return make_host(self.spec.env, num_envs, self._access, **{**(self.spec.env_kwargs or {}), **options})

    def play(self, pool: HostEnv, state: RunState, seed: int, group: int = 0) -> Iterator[HostStep]:
        """Reset a pool; yield its steps under the policy, on the eval stream, for as long as an episode may last."""
        act = self._policy_actor(state)
        key = group_key(stream_key(seed, "eval", int(state.update)), group)
        pool.reset(int(jax.random.bits(key, (), jnp.uint32)))
        while pool.steps < pool.horizon:
            noise = np.asarray(self._step_noise(key, pool.steps, pool.num_envs))
            yield pool.step(pool.clip_action(np.asarray(act(pool.current, noise))))

    def collect(self, state: RunState) -> tuple[Rollout, Values]:
        """Return (T steps of all environments as NumPy arrays, returns so far of the running episodes).

        What the network says of the observations is left to the program that learns: it has them all at once.
        """
        env, uses_replay = self.env, self.algorithm.uses_replay
        act, policy = self._training_actor(state), None if uses_replay else self._policy_for_values(state)
        noise = np.asarray(self._rollout_noise(*jax.device_get((state.seed, state.update))))
        rollout: Any = jax.tree.map(np.zeros_like, self._blank)
        totals = np.asarray(state.episodes).copy()
        observations = rollout.observation if rollout.raw_observation is None else rollout.raw_observation
        for t in range(self.plan.num_steps):
            observations[t], rollout.steps[t] = env.current, env.elapsed
            action = np.asarray(act(env.current, noise[t]))
            outcome = env.step(env.clip_action(action))
            ended = outcome.terminated | outcome.truncated
            reward = outcome.true_reward if uses_replay else outcome.reward
            totals += reward
            rollout.action[t], rollout.reward[t], rollout.valid[t] = action, reward, outcome.valid
            rollout.terminated[t], rollout.truncated[t] = outcome.terminated, outcome.truncated
            rollout.episode_return[t], rollout.episode_length[t] = totals, rollout.steps[t] + 1
            totals[ended] = 0.0
            if uses_replay:
                rollout.final_observation[t] = outcome.final_observation
            elif outcome.truncated.any():
                values = self._value(policy, outcome.final_observation)
                rollout.final_value[t] = np.where(outcome.truncated, values, 0.0)
        return rollout, totals

    def _blank_rollout(self) -> Rollout:
        """Return an empty rollout; fields that the compiled program computes are None."""
        observation, steps, envs = self.env.observation, self.plan.num_steps, self.plan.num_envs
        distribution = self.algorithm.distribution
        action = jax.eval_shape(lambda: distribution.mode(jnp.zeros((envs, distribution.num_outputs))))

        def column(dtype: Any, shape: tuple[int, ...] = ()) -> Any:
            return np.zeros((steps, envs, *shape), dtype)

        observations, uses_replay = column(observation.dtype, observation.shape), self.algorithm.uses_replay
        is_normalized = self.spec.normalize_observations
        empty: Any = None
        return Rollout(
            observation=empty if is_normalized else observations,
            raw_observation=observations if is_normalized else None,
            action=column(action.dtype, action.shape[1:]),
            reward=column(np.float32),
            terminated=column(bool),
            truncated=column(bool),
            steps=column(np.int32),
            episode_return=column(np.float32),
            episode_length=column(np.int32),
            final_value=empty if uses_replay else column(np.float32),
            final_observation=column(observation.dtype, observation.shape) if uses_replay else empty,
            valid=column(bool),
        )

    def _place(self, rollout: Rollout, last: Values, is_monitored: bool = False) -> tuple[Rollout, Array, Array]:
        placed: tuple[Rollout, Array, Array] = self.parallel.place(
            (rollout, last, np.asarray(is_monitored)), self._specs
        )
        return placed

    def _training_actor(self, state: RunState) -> Actor:
        """Return how actions are chosen while training: random ones belong to the algorithm's `act_fn`."""
        if not self.algorithm.uses_replay:
            return self._policy_actor(state)
        learner, moments = self.algorithm.acting_state(state.learner), state.normalizer.observations
        return lambda observation, noise: self._act(learner, moments, observation, noise)

    def _policy_actor(self, state: RunState) -> Actor:
        """Return the policy's actions, in NumPy where it can: a compiled program has a higher call latency."""
        policy = self.algorithm.policy(state.learner, state.normalizer.observations)
        if _acts_in_numpy(policy.network):
            return jax.device_get(policy).actor_fn()  # type: ignore[no-any-return]
        return partial(_policy_action, policy.on_device())

    def _policy_for_values(self, state: RunState) -> Any:
        policy = self.algorithm.policy(state.learner, state.normalizer.observations)
        return jax.device_get(policy) if _acts_in_numpy(policy.network) else policy.on_device()

    def _train(
        self, state: RunState, rollout: Rollout, last: Array, is_monitored: Array
    ) -> tuple[RunState, UpdateMetrics]:
        """Of a shard: evaluate the network on its observations, then update."""
        moments = state.normalizer.observations
        if moments is not None:
            rollout = rollout._replace(observation=normalize_obs(moments, rollout.raw_observation))
        rollout = self.algorithm.complete(state.learner, rollout, normalize_obs(moments, last))
        keys = jax.tree.map(lambda key: key[0], self.update_keys(state, 1))
        return self.train_on_rollout(state, rollout, keys, is_monitored)


@jax.jit
def _policy_action(policy: Any, observation: Array, noise: Array) -> Array:
    action: Array = policy.actor_fn()(observation, noise)
    return action


def _acts_in_numpy(network: Any) -> bool:
    """Return whether acting is a few small matrix products: an actor-critic on vectors."""
    return isinstance(network, ActorCritic) and network.encoder is None
