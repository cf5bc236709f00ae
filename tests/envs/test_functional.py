"""Time limits, resets and what is reported of them, on a counter that is easy to follow."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import pytest
from jax import Array

from rollshape.envs.functional import FunctionalEnv, StepResult, start, step_and_reset
from rollshape.envs.registry import make
from rollshape.envs.spaces import Action, Discrete, Observation
from rollshape.errors import RequestError


@dataclass(frozen=True)
class Counter(FunctionalEnv):
    """Counts up by the action, pays it, and terminates at `end`."""

    end: int
    max_steps: int | None
    name: str = "Counter"
    observation: Observation = Observation((1,))
    action: Action = Discrete(3)

    def reset(self, key: Array) -> tuple[Array, Array]:  # noqa: ARG002
        return jnp.zeros((), jnp.int32), jnp.zeros(1)

    def step(self, key: Array, state: Array, action: Array) -> StepResult:  # noqa: ARG002
        state = state + action
        return StepResult(state, state[None].astype(jnp.float32), action.astype(jnp.float32), state >= self.end)


def history(env: FunctionalEnv, actions: list[int]) -> list[tuple[float, ...]]:
    episode, rows = start(env, jax.random.key(0)), []
    for action in actions:
        episode, seen = step_and_reset(env, jax.random.key(1), episode, jnp.asarray(action))
        rows.append(
            (float(episode.observation[0]), float(seen.final_observation[0]), bool(seen.terminated),
             bool(seen.truncated), float(seen.episode_return), int(seen.episode_length))
        )  # fmt: skip
    return rows


def test_termination_and_reset() -> None:
    assert history(Counter(end=3, max_steps=None), [1, 2, 1]) == [
        (1, 1, False, False, 1, 1),
        (0, 3, True, False, 3, 2),  # the next episode's observation is fresh, the final one is reported
        (1, 1, False, False, 1, 1),
    ]


def test_a_time_limit_truncates() -> None:
    assert history(Counter(end=99, max_steps=2), [1, 1, 2]) == [
        (1, 1, False, False, 1, 1),
        (0, 2, False, True, 2, 2),
        (2, 2, False, False, 2, 1),
    ]


def test_termination_at_the_last_step_is_no_truncation() -> None:
    assert history(Counter(end=2, max_steps=2), [1, 1])[-1][2:4] == (True, False)


def test_any_state_can_be_branched_from() -> None:
    env = make("CartPole-v1")
    episode = start(env, jax.random.key(0))
    for _ in range(5):
        episode, _ = step_and_reset(env, jax.random.key(1), episode, jnp.asarray(1))
    twice = [step_and_reset(env, jax.random.key(2), episode, jnp.asarray(0))[0].observation for _ in range(2)]
    assert (twice[0] == twice[1]).all()


def test_unknown_environments_are_one_message() -> None:
    for name in ("CartPole-v7", "tabular:CartPole-v1", "gymnax:Nothing-v0"):
        with pytest.raises(RequestError) as caught:
            make(name)
        assert caught.value.rule == "environment"
    with pytest.raises(RequestError, match="options"):
        make("CartPole-v1", gravity=3)
    with pytest.raises(RequestError, match="delay"):
        make("DelayChain-v0", delay=64)
