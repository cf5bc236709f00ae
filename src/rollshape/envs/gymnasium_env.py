"""Gymnasium's vector environments; how they reset is read from their metadata, never guessed.

A run resumes by repeating: each environment remembers its generator's state before its last reset and the actions
since. Generator, reset and actions again lead to the same place, or it is seen that they do not.
"""

from __future__ import annotations

import warnings
from functools import partial
from importlib import import_module
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from rollshape.envs.gymnasium_spaces import shown, shown_one
from rollshape.envs.host import (
    Flags,
    HostEnv,
    HostStep,
    OneFailed,
    Snapshot,
    Values,
    making,
    seeds_of,
    success_of,
    told,
)
from rollshape.errors import RequestError, did_you_mean

LONGEST = 30_000  # steps of an episode that are remembered
UNSEEDED = -1
WORD = 2**64
Vectorisation = Literal["sync", "async", "vector_entry_point"]


class GymnasiumEnv(HostEnv):
    """Any vector environment. One of `Watched` environments replays, unless it resets them a step late."""

    def __init__(self, vector: VectorEnv[Any, Any, Any], name: str, max_steps: int | None) -> None:
        super().__init__(name, vector.num_envs, vector.single_observation_space, vector.single_action_space, max_steps)
        self._vector, self._mode = vector, _autoreset_mode(vector, name)
        self._single = isinstance(vector.unwrapped, (SyncVectorEnv, AsyncVectorEnv))
        self._ended = np.zeros(self.num_envs, bool)  # and not yet reset
        parts = vector.envs if isinstance(vector, SyncVectorEnv) else []
        self._parts = [part for part in parts if isinstance(part, Watched)]
        self.replays = len(self._parts) == self.num_envs and self._mode is not AutoresetMode.NEXT_STEP

    def _reset(self, seed: int) -> Values:
        self._ended = np.zeros(self.num_envs, bool)
        seeds = seeds_of(seed, self.num_envs) if self._single else seed
        return self._shown(self._vector.reset(seed=seeds)[0])  # type: ignore[arg-type]

    def _restart(self, chosen: Flags) -> Values:
        if not self._single and self._mode is not AutoresetMode.DISABLED:
            raise RequestError("environment", f"{self.name} cannot reset one environment alone.", "Use --stagger none.")
        self._ended = self._ended & ~chosen
        observation, _ = self._vector.reset(options={"reset_mask": chosen.copy()})
        return self._shown(observation)[chosen]

    def _step(self, action: Values) -> HostStep:
        batch, reward, terminated, truncated, info = self._vector.step(action)
        observation, valid = self._shown(batch), ~self._ended
        terminated = np.asarray(terminated, bool) & valid
        truncated = np.asarray(truncated, bool) & valid & ~terminated
        reward = np.where(valid, reward, 0.0).astype(np.float32)
        ended = terminated | truncated
        final = observation
        if self._mode is AutoresetMode.NEXT_STEP:
            self._ended = ended
        elif ended.any():
            if self._mode is AutoresetMode.SAME_STEP:
                final = observation.copy()
                for i in np.flatnonzero(ended):
                    final[i] = shown_one(self._observation_space, self.observation, info["final_obs"][i])
            else:
                observation = observation.copy()
                observation[ended] = self._restart(ended)
        return HostStep(observation, reward, terminated, truncated, final, valid, reward, success_of(info, ended))

    def _shown(self, batch: Any) -> Values:
        return shown(self._observation_space, self.observation, batch)

    def snapshot(self) -> Snapshot:
        kept = super().snapshot()
        if not self.replays or any(part.length > LONGEST for part in self._parts):
            return kept
        before, now = ([_words(state) for state in states] for states in zip(*map(_states, self._parts), strict=True))
        if any(words is None for words in (*before, *now)):
            return kept
        space = self._action_space
        actions = [action for part in self._parts for action in part.actions]
        return kept | {
            "observation": self.current.copy(),
            "generator_before": np.asarray(before, np.uint64),
            "generator": np.asarray(now, np.uint64),
            "reset_seed": np.asarray([UNSEEDED if p.reset_seed is None else p.reset_seed for p in self._parts]),
            "length": np.asarray([part.length for part in self._parts]),
            "actions": np.asarray(actions, space.dtype).reshape(-1, *(space.shape or ())),
        }

    def restore(self, snapshot: Snapshot) -> bool:
        if "observation" not in snapshot or not self.replays:
            return super().restore(snapshot)
        self.reset(int(snapshot["seed"]))
        cuts = np.cumsum(snapshot["length"])[:-1]
        episodes = zip(
            self._parts, snapshot["generator_before"], snapshot["generator"], snapshot["reset_seed"],
            np.split(snapshot["actions"], cuts), snapshot["observation"], strict=True,
        )  # fmt: skip
        if not all(self._repeated(*episode) for episode in episodes):
            return super().restore(snapshot)
        self.steps = int(snapshot["steps"])
        self._begin(snapshot["observation"].copy(), snapshot["length"].copy())
        return True

    def _repeated(
        self, part: Watched, before: Values, now: Values, seed: Values, actions: Values, observation: Values
    ) -> bool:
        """Whether the episode's reset and actions lead to the same observation and the same generator again."""
        try:
            reached = part.repeat(None if seed == UNSEEDED else int(seed), _state(before), actions)
        except OneFailed:
            return False
        same = reached is not None and np.array_equal(
            shown_one(self._observation_space, self.observation, reached), observation
        )
        return same and _words(_states(part)[1]) == now.tolist()

    def frame(self) -> NDArray[np.uint8]:
        with self._watched():
            drawn = self._vector.render()
        return np.asarray(drawn[0], np.uint8) if drawn is not None and drawn[0] is not None else super().frame()

    def close(self) -> None:
        self._vector.close()


class Watched(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One environment that remembers its running episode, and says which one of the N failed."""

    def __init__(self, env: gymnasium.Env[Any, Any], index: int) -> None:
        super().__init__(env)
        self.index = index
        self.reset_seed: int | None = None
        self.before: dict[str, Any] | None = None  # the generator, where the reset had no seed
        self.length = 0
        self.actions: list[Any] = []
        space = env.observation_space
        self._box = space if isinstance(space, gymnasium.spaces.Box) else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.reset_seed, self.before = seed, None if seed is not None else _generator(self)
        self.length, self.actions = 0, []
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except Exception as error:
            raise self._failed(told(error)) from error
        self._check(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.length += 1
        if self.length <= LONGEST:
            self.actions.append(action)
        try:
            outcome = self.env.step(action)
        except Exception as error:
            raise self._failed(told(error)) from error
        self._check(outcome[0])
        return outcome

    def repeat(self, seed: int | None, before: dict[str, Any], actions: Values) -> Any:
        """The observation after a reset and these actions; None where the episode ends on the way."""
        if seed is None:
            self.unwrapped.np_random.bit_generator.state = before
        observation, _ = self.reset(seed=seed)
        for action in actions:
            observation, _, terminated, truncated, _ = self.step(action)
            if terminated or truncated:
                return None
        return observation

    def _check(self, observation: Any) -> None:
        if self._box is None:
            return
        values, space = np.asarray(observation), self._box
        if values.shape != space.shape:
            raise self._failed(f"an observation of shape {values.shape} where the space says {space.shape}.")
        if not np.can_cast(values.dtype, np.dtype(space.dtype), "same_kind"):
            raise self._failed(f"an observation of {values.dtype} where the space says {space.dtype}.")

    def _failed(self, problem: str) -> OneFailed:
        return OneFailed(f"environment {self.index}: {problem}")


def _generator(env: gymnasium.Env[Any, Any]) -> dict[str, Any] | None:
    """The state of its generator, if it is the kind that Gymnasium gives to environments."""
    state = getattr(getattr(env.unwrapped.np_random, "bit_generator", None), "state", {})
    return dict(state) if state.get("bit_generator") == "PCG64" else None


def _states(part: Watched) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The generator before the last reset and now; a seeded reset needs no state before it."""
    now = _generator(part)
    return (now if part.reset_seed is not None else part.before), now


def _words(state: dict[str, Any] | None) -> list[int] | None:
    """PCG64's state as six words of 64 bits: two numbers of 128 bits, and the half of a draw that is left over."""
    if state is None:
        return None
    numbers = state["state"]["state"], state["state"]["inc"]
    halves = [part for number in numbers for part in divmod(number, WORD)]
    return [*halves, state["has_uint32"], state["uinteger"]]


def _state(words: NDArray[np.uint64]) -> dict[str, Any]:
    a, b, c, d, has_uint32, uinteger = (int(word) for word in words)
    numbers = {"state": a * WORD + b, "inc": c * WORD + d}
    return {"bit_generator": "PCG64", "state": numbers, "has_uint32": has_uint32, "uinteger": uinteger}


def _autoreset_mode(vector: VectorEnv[Any, Any, Any], name: str) -> AutoresetMode:
    inner = vector.unwrapped
    if isinstance(inner, (SyncVectorEnv, AsyncVectorEnv)):  # their metadata is their class's: the latest one writes it
        return inner.autoreset_mode
    mode = vector.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise RequestError(
            "environment",
            f"{name} does not say how it resets: metadata['autoreset_mode'] is {mode!r}.",
            "Set it to one of gymnasium.vector.AutoresetMode.",
        )
    return mode


def make_one(name: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """One environment; unknown ids, missing extras and wrong options are one message."""
    with warnings.catch_warnings(), making(name):
        warnings.simplefilter("ignore")  # old versions of an environment are the user's choice
        try:
            return gymnasium.make(name, disable_env_checker=True, **options)
        except (gymnasium.error.Error, ModuleNotFoundError) as error:
            raise _unknown(name, error) from None
        except TypeError as error:
            if not options:
                raise
            raise RequestError(
                "environment", f"{name} does not take these options: {error}", "Check --env-kwargs."
            ) from None


def make_gymnasium(
    name: str, num_envs: int, vectorization_mode: Vectorisation | None = None, **options: Any
) -> GymnasiumEnv:
    """`num_envs` of a Gymnasium id: one after the other, in processes (`async`), or the id's own vector environment.

    Options go to its constructor.
    """
    registered = _registered(name)
    if vectorization_mode is None:  # an id may exist as a vector environment only
        only_vector = registered is not None and registered.entry_point is None
        vectorization_mode = "vector_entry_point" if only_vector else "sync"
    if vectorization_mode == "vector_entry_point":
        vector = _make_vector(name, num_envs, **options)
        return GymnasiumEnv(vector, name, vector.spec.max_episode_steps if vector.spec else None)
    if vectorization_mode not in ("sync", "async"):
        raise RequestError(
            "choice",
            f"There is no vectorization_mode {vectorization_mode!r}.",
            "Choose sync, async or vector_entry_point.",
        )
    first = make_one(name, **options)
    spec = first.spec
    first.close()
    functions = [partial(_watched, name, registered, i, options) for i in range(num_envs)]
    with making(name):
        vector = (
            SyncVectorEnv(functions, autoreset_mode=AutoresetMode.SAME_STEP)
            if vectorization_mode == "sync"
            else AsyncVectorEnv(functions, context="spawn", autoreset_mode=AutoresetMode.SAME_STEP)
        )
    return GymnasiumEnv(vector, name, spec.max_episode_steps if spec else None)


def _watched(name: str, registered: EnvSpec | None, index: int, options: dict[str, Any]) -> Watched:
    """One of many; a process of its own may not know the id, but takes what was registered."""
    if registered is not None and name not in gymnasium.registry:
        gymnasium.registry[name] = registered
    return Watched(make_one(name, **options), index)


def _make_vector(name: str, num_envs: int, **options: Any) -> VectorEnv[Any, Any, Any]:
    with warnings.catch_warnings(), making(name):
        warnings.simplefilter("ignore")
        try:
            return gymnasium.make_vec(name, num_envs, "vector_entry_point", **options)
        except (gymnasium.error.Error, ModuleNotFoundError) as error:
            raise _unknown(name, error) from None


def _registered(name: str) -> EnvSpec | None:
    """What is registered under an id; `module:id` registers itself when the module is imported."""
    module, _, rest = name.rpartition(":")
    if module:
        with making(name):
            try:
                import_module(module)
            except ModuleNotFoundError as error:
                raise _unknown(name, error) from None
    return gymnasium.registry.get(rest)


def _unknown(name: str, error: Exception) -> RequestError:
    from rollshape.envs.registry import FUNCTIONAL

    hint = did_you_mean(name, [*gymnasium.registry, *FUNCTIONAL])
    text = str(error).split("\n")[0]
    return RequestError("environment", f"Cannot make {name}: {text}", f"{hint}Check the id, or install its extra.")
