"""Finite MDPs, whose values, state distribution and policy gradient can be computed exactly (see `exact`)."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from rollshape.envs.functional import FunctionalEnv, StepResult
from rollshape.envs.spaces import Action, Discrete, Observation
from rollshape.errors import RequestError

Floats = NDArray[np.float64]
LAKES = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": ("SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"),
}


@dataclass(frozen=True, eq=False)
class TabularMDP(FunctionalEnv):
    """S states, A actions: P[s, a, s′] transitions, R[s, a, s′] rewards, terminal states, a start distribution.

    Observations are one-hot states.
    """

    name: str
    transitions: Floats
    rewards: Floats
    terminal: NDArray[np.bool_]
    start: Floats
    max_steps: int | None = None
    observation: Observation = field(init=False)
    action: Action = field(init=False)

    def __post_init__(self) -> None:
        states, actions, _ = self.transitions.shape
        if not np.allclose(self.transitions.sum(-1), 1) or not np.isclose(self.start.sum(), 1):
            raise ValueError("transitions and start must be probabilities")
        object.__setattr__(self, "observation", Observation((states,)))
        object.__setattr__(self, "action", Discrete(actions))
        object.__setattr__(self, "_cumulative", jnp.asarray(self.transitions.cumsum(-1), jnp.float32))
        object.__setattr__(self, "_start", jnp.asarray(self.start.cumsum(), jnp.float32))
        object.__setattr__(self, "_rewards", jnp.asarray(self.rewards, jnp.float32))
        object.__setattr__(self, "_terminal", jnp.asarray(self.terminal))

    @property
    def num_states(self) -> int:
        return int(self.transitions.shape[0])

    def observe(self, state: Array) -> Array:
        """Return the observation of a state."""
        return jax.nn.one_hot(state, self.num_states)

    def reset(self, key: Array) -> tuple[Array, Array]:
        state = _sample_index(key, self._start)  # type: ignore[attr-defined]
        return state, self.observe(state)

    def step(self, key: Array, state: Array, action: Array) -> StepResult:
        next_state = _sample_index(key, self._cumulative[state, action])  # type: ignore[attr-defined]
        reward = self._rewards[state, action, next_state]  # type: ignore[attr-defined]
        return StepResult(next_state, self.observe(next_state), reward, self._terminal[next_state])  # type: ignore[attr-defined]


def _sample_index(key: Array, cumulative: Array) -> Array:
    """Sample an index, given the cumulative probabilities; the minimum guards against rounding."""
    return jnp.minimum((jax.random.uniform(key) >= cumulative).sum(), cumulative.shape[0] - 1)


def frozen_lake(size: str = "4x4", slippery: bool = True) -> TabularMDP:
    """Return FrozenLake; if it is slippery, a step goes in one of the two perpendicular directions with ⅓ each."""
    if size not in LAKES:
        raise RequestError("choice", f"Unknown FrozenLake size {size!r}.", f"Use one of {', '.join(LAKES)}.")
    lake = LAKES[size]
    side = len(lake)
    kinds = "".join(lake)
    states, moves = side * side, ((0, -1), (1, 0), (0, 1), (-1, 0))  # left, down, right, up
    transitions = np.zeros((states, 4, states))
    for state, kind in enumerate(kinds):
        for action in range(4):
            if kind in "GH":
                transitions[state, action, state] = 1
                continue
            for direction in ((action - 1) % 4, action, (action + 1) % 4) if slippery else (action,):
                row = min(max(state // side + moves[direction][0], 0), side - 1)
                column = min(max(state % side + moves[direction][1], 0), side - 1)
                transitions[state, action, row * side + column] += 1 / 3 if slippery else 1
    goal = np.array([kind == "G" for kind in kinds])
    terminal = np.array([kind in "GH" for kind in kinds])
    start = np.array([kind == "S" for kind in kinds], float)
    rewards = np.broadcast_to(goal, (states, 4, states)) * ~terminal[:, None, None]
    limit = {"4x4": 100, "8x8": 200}[size]
    return TabularMDP(f"FrozenLake-{size}", transitions, rewards.astype(float), terminal, start, limit)


def delay_chain(delay: int = 8, density: float = 1.0, mixing: float = 16.0, period: int = 64) -> TabularMDP:
    """Return a chain in which reward delay, reward density and mixing time are set independently.

    Once per `period` the agent must choose the action that equals the observed context bit. The correct action is
    rewarded `delay` steps later with probability `density` and reward 1/density, so 1 on average. The context flips
    with probability 1/`mixing` per step. All other actions have no effect, so the frequency of decisions does not
    depend on the delay. Episodes never end.

    States are (phase 0…period−1, context, was correct, was rewarded).
    """
    if not 1 <= delay < period or not 0 < density <= 1 or mixing < 1:
        raise RequestError(
            "number-range",
            f"DelayChain needs 1 ≤ delay < period, 0 < density ≤ 1 and mixing ≥ 1; got {delay}, {density}, {mixing}.",
            f"Use a delay of at most {period - 1}.",
        )
    shape = (period, 2, 2, 2)
    states = int(np.prod(shape))
    transitions = np.zeros((states, 2, states))
    rewards = np.zeros((states, 2, states))
    for phase, context, right, paid in np.ndindex(shape):
        here = np.ravel_multi_index((phase, context, right, paid), shape)
        for action in range(2):
            was_right = int(action == context) if phase == 0 else right
            due = (phase + 1) % period == delay and was_right
            for flips, flip_chance in ((0, 1 - 1 / mixing), (1, 1 / mixing)):
                for pays, pay_chance in ((1, density), (0, 1 - density)) if due else ((0, 1.0),):
                    there = np.ravel_multi_index(((phase + 1) % period, context ^ flips, was_right, pays), shape)
                    transitions[here, action, there] += flip_chance * pay_chance
                    rewards[here, action, there] = pays / density
    start = np.zeros(shape)
    start[0, :, 0, 0] = 0.5
    name = f"DelayChain-{delay}-{density:g}-{mixing:g}"
    return TabularMDP(name, transitions, rewards, np.zeros(states, bool), start.ravel(), max_steps=None)
