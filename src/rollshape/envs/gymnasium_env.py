"""Vector environments of Gymnasium; their metadata defines how they reset.

Resuming repeats the current episodes: each environment records the state of its random generator before the last reset,
and the actions since then. Repeating them leads to the same state, which is verified.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from rollshape.envs.failures import SubEnvError, creation_errors, format_exception
from rollshape.envs.gymnasium_spaces import encode_observation, encode_observations
from rollshape.envs.host import Flags, HostStep, Snapshot, SpaceEnv, Values, env_seeds, read_success
from rollshape.envs.modules import load_module, split_module
from rollshape.envs.objects import find_factory, find_object, given_object, is_functional, provide
from rollshape.errors import RequestError, did_you_mean
from rollshape.processes import safe_child_path

LONGEST = 30_000  # recorded steps of an episode
UNSEEDED = -1
WORD = 2**64
VectorizationMode = Literal["sync", "async", "vector_entry_point"]


class GymnasiumEnv(SpaceEnv):
    """Any vector environment. It can be restored if it consists of `RecordingEnv`s that reset in the same step."""

    def __init__(self, vector: VectorEnv[Any, Any, Any], name: str, max_steps: int | None) -> None:
        super().__init__(name, vector.num_envs, vector.single_observation_space, vector.single_action_space, max_steps)
        self._vector, self._mode = vector, _autoreset_mode(vector, name)
        self._single = isinstance(vector.unwrapped, (SyncVectorEnv, AsyncVectorEnv))
        self._needs_reset = np.zeros(self.num_envs, bool)  # ended, and reset by the next step
        parts = vector.envs if isinstance(vector, SyncVectorEnv) else []
        self._parts = [part for part in parts if isinstance(part, RecordingEnv)]
        self.replays = len(self._parts) == self.num_envs and self._mode is not AutoresetMode.NEXT_STEP

    def _reset(self, seed: int) -> Values:
        self._needs_reset = np.zeros(self.num_envs, bool)
        seeds = env_seeds(seed, self.num_envs) if self._single else seed
        return self._encode(self._vector.reset(seed=seeds)[0])  # type: ignore[arg-type]

    def _restart(self, mask: Flags) -> Values:
        if not self._single and self._mode is not AutoresetMode.DISABLED:
            raise RequestError("environment", f"{self.name} cannot reset single environments.", "Use --stagger none.")
        self._needs_reset = self._needs_reset & ~mask
        observation, _ = self._vector.reset(options={"reset_mask": mask.copy()})
        return self._encode(observation)[mask]

    def _step(self, action: Values) -> HostStep:
        batch, reward, terminated, truncated, info = self._vector.step(action)
        observation, valid = self._encode(batch), ~self._needs_reset
        terminated = np.asarray(terminated, bool) & valid
        truncated = np.asarray(truncated, bool) & valid & ~terminated
        reward = np.where(valid, reward, 0.0).astype(np.float32)
        ended = terminated | truncated
        final = observation
        if self._mode is AutoresetMode.NEXT_STEP:
            self._needs_reset = ended
        elif ended.any():
            if self._mode is AutoresetMode.SAME_STEP:
                final = observation.copy()
                for i in np.flatnonzero(ended):
                    final[i] = encode_observation(self._observation_space, self.observation, info["final_obs"][i])
            else:
                observation = observation.copy()
                observation[ended] = self._restart(ended)
        return HostStep(observation, reward, terminated, truncated, final, valid, reward, read_success(info, ended))

    def _encode(self, batch: Any) -> Values:
        return encode_observations(self._observation_space, self.observation, batch)

    def snapshot(self) -> Snapshot:
        snapshot = super().snapshot()
        if not self.replays or any(part.length > LONGEST for part in self._parts):
            return snapshot
        with self.guard.doing("snapshot"):
            states = [_states(part) for part in self._parts]
        before, now = ([_words(state) for state in column] for column in zip(*states, strict=True))
        if any(words is None for words in (*before, *now)):
            return snapshot
        space = self._action_space
        actions = [action for part in self._parts for action in part.actions]
        return snapshot | {
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
        ends = np.cumsum(snapshot["length"])[:-1]
        episodes = zip(
            self._parts, snapshot["generator_before"], snapshot["generator"], snapshot["reset_seed"],
            np.split(snapshot["actions"], ends), snapshot["observation"], strict=True,
        )  # fmt: skip
        with self.guard.doing("reset"):
            is_same = all(self._repeat(*episode) for episode in episodes)
        if not is_same:
            return super().restore(snapshot)
        self.steps = int(snapshot["steps"])
        self._set_current(snapshot["observation"].copy(), snapshot["length"].copy())
        return True

    def _repeat(
        self, part: RecordingEnv, before: Values, now: Values, seed: Values, actions: Values, observation: Values
    ) -> bool:
        """Repeat an episode; return whether observation and random generator end up in the recorded state."""
        self.guard.beat()
        try:
            reached = part.repeat(None if seed == UNSEEDED else int(seed), _state(before), actions)
        except SubEnvError:
            return False
        same = reached is not None and np.array_equal(
            encode_observation(self._observation_space, self.observation, reached), observation
        )
        return same and _words(_states(part)[1]) == now.tolist()

    def _render(self) -> NDArray[np.uint8] | None:
        images = self._vector.render()
        return np.asarray(images[0], np.uint8) if images is not None and images[0] is not None else None

    def _close(self) -> None:
        try:
            self._vector.close()
        finally:
            self._vector.closed = True  # after a failure the garbage collector would close it again

    def _abandon(self) -> None:
        self._vector.closed = True
        if isinstance(self._vector, AsyncVectorEnv):
            for process in self._vector.processes:
                process.kill()
                process.join()


class RecordingEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One of N environments; it records its current episode, and adds its index to exceptions."""

    def __init__(self, env: gymnasium.Env[Any, Any], index: int) -> None:
        super().__init__(env)
        self.index = index
        self.reset_seed: int | None = None
        self.before: dict[str, Any] | None = None  # generator state, if the reset had no seed
        self.length = 0
        self.actions: list[Any] = []
        space = env.observation_space
        self._box = space if isinstance(space, gymnasium.spaces.Box) else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.reset_seed, self.before = seed, None if seed is not None else _generator(self)
        self.length, self.actions = 0, []
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except (Exception, SystemExit) as error:
            raise self._error(format_exception(error)) from error
        self._check(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.length += 1
        if self.length <= LONGEST:
            self.actions.append(action)
        try:
            result = self.env.step(action)
        except (Exception, SystemExit) as error:
            raise self._error(format_exception(error)) from error
        self._check(result[0])
        return result

    def repeat(self, seed: int | None, before: dict[str, Any], actions: Values) -> Any:
        """Return the observation after a reset and these actions; None if the episode ends before."""
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
            raise self._error(f"observation of shape {values.shape}, but the space has {space.shape}.")
        if not np.can_cast(values.dtype, np.dtype(space.dtype), "same_kind"):
            raise self._error(f"observation of dtype {values.dtype}, but the space has {space.dtype}.")

    def _error(self, problem: str) -> SubEnvError:
        return SubEnvError(f"environment {self.index}: {problem}")


def _generator(env: gymnasium.Env[Any, Any]) -> dict[str, Any] | None:
    """Return the state of an environment's random generator, if it is a PCG64 (Gymnasium's default)."""
    state = getattr(getattr(env.unwrapped.np_random, "bit_generator", None), "state", {})
    return dict(state) if state.get("bit_generator") == "PCG64" else None


def _states(part: RecordingEnv) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the generator state before the last reset and now; a seeded reset needs no state before it."""
    now = _generator(part)
    return (now if part.reset_seed is not None else part.before), now


def _words(state: dict[str, Any] | None) -> list[int] | None:
    """Return the state of PCG64 as six 64-bit words: two 128-bit numbers, and a buffered 32-bit value."""
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
    if isinstance(
        inner, (SyncVectorEnv, AsyncVectorEnv)
    ):  # their metadata belongs to the class and may be another instance's
        return inner.autoreset_mode
    mode = vector.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise RequestError(
            "environment",
            f"{name} does not define how it resets: metadata['autoreset_mode'] is {mode!r}.",
            "Set it to a value of gymnasium.vector.AutoresetMode.",
        )
    return mode


def make_one(name: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """Create one environment; unknown ids, missing extras and invalid options are RequestErrors."""
    _import_module(name)
    with warnings.catch_warnings(), creation_errors(name):
        warnings.simplefilter("ignore")  # using an old version is the user's choice
        factory = find_factory(name)
        try:
            if factory is not None:
                env: gymnasium.Env[Any, Any] = factory(**options)
                return env
            return gymnasium.make(name, disable_env_checker=True, **options)
        except (gymnasium.error.Error, ModuleNotFoundError) as error:
            raise _creation_error(name, error) from None
        except TypeError as error:
            if not options:
                raise
            raise RequestError("environment", f"Invalid options for {name}: {error}", "Check --env-kwargs.") from None


def make_gymnasium(
    name: str,
    num_envs: int,
    vectorization_mode: VectorizationMode | None = None,
    on_created: Callable[[], None] = lambda: None,
    **options: Any,
) -> GymnasiumEnv:
    """Create `num_envs` environments of a Gymnasium id: in this process, in subprocesses, or by its vector entry point.

    Options are passed to the constructor. `on_created` is called after every environment that is created here.
    """
    registered_spec = _find_spec(name)
    if vectorization_mode is None:  # some ids only have a vector entry point
        only_vector = registered_spec is not None and registered_spec.entry_point is None
        vectorization_mode = "vector_entry_point" if only_vector else "sync"
    if vectorization_mode == "vector_entry_point":
        vector = _make_vector(name, num_envs, **options)
        return GymnasiumEnv(vector, name, vector.spec.max_episode_steps if vector.spec else None)
    if vectorization_mode not in ("sync", "async"):
        raise RequestError(
            "choice",
            f"Unknown vectorization_mode {vectorization_mode!r}.",
            "Use sync, async or vector_entry_point.",
        )
    first = make_one(name, **options)
    max_steps = _time_limit(first)
    first.close()
    given = given_object(name)
    functions = [partial(_make_recording_env, name, registered_spec, given, i, options) for i in range(num_envs)]

    def create(function: Callable[[], RecordingEnv]) -> RecordingEnv:
        env = function()
        on_created()
        return env

    with creation_errors(name), safe_child_path():
        vector = (
            SyncVectorEnv([partial(create, function) for function in functions], autoreset_mode=AutoresetMode.SAME_STEP)
            if vectorization_mode == "sync"
            else AsyncVectorEnv(functions, context="spawn", autoreset_mode=AutoresetMode.SAME_STEP)
        )
    return GymnasiumEnv(vector, name, max_steps)


def _time_limit(env: gymnasium.Env[Any, Any]) -> int | None:
    """Return the time limit of an environment's spec, or of its wrapper if it has no spec."""
    if env.spec is not None:
        return env.spec.max_episode_steps
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            return int(env._max_episode_steps)
        env = env.env
    return None


def _make_recording_env(
    name: str, spec: EnvSpec | None, given: Any, index: int, options: dict[str, Any]
) -> RecordingEnv:
    """Create one of the N environments; a subprocess may have to register its id or its object first."""
    if given is not None:
        provide(name, given)
    if spec is not None and name not in gymnasium.registry:
        gymnasium.registry[name] = spec
    return RecordingEnv(make_one(name, **options), index)


def _make_vector(name: str, num_envs: int, **options: Any) -> VectorEnv[Any, Any, Any]:
    with warnings.catch_warnings(), creation_errors(name):
        warnings.simplefilter("ignore")
        try:
            return gymnasium.make_vec(name, num_envs, "vector_entry_point", **options)
        except (gymnasium.error.Error, ModuleNotFoundError) as error:
            raise _creation_error(name, error) from None


def _find_spec(name: str) -> EnvSpec | None:
    """Return the registered spec of an id; `module:id` imports the module first, which registers it."""
    _import_module(name)
    if is_functional(find_object(name)):
        raise RequestError(
            "environment",
            f"{name} is a functional environment, which does not run on the host.",
            "Leave out --isolate-env.",
        )
    return gymnasium.registry.get(split_module(name)[1])


def _import_module(name: str) -> None:
    module, _ = split_module(name)
    if module is not None:
        load_module(module, name)


def _creation_error(name: str, error: Exception) -> RequestError:
    from rollshape.envs.registry import FUNCTIONAL

    text = str(error).split("\n")[0]
    if isinstance(error, (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError)) and name in gymnasium.registry:
        package = f"gymnasium[{group}]" if (group := _dependency_group(name)) else "the package that it names"
        return RequestError("environment", f"Cannot create {name}: {text}", f"Install {package}{_in_envpool(name)}.")
    hint = did_you_mean(name, [*gymnasium.registry, *FUNCTIONAL])
    return RequestError("environment", f"Cannot create {name}: {text}", f"{hint}Check the id, or install its extra.")


def _dependency_group(name: str) -> str:
    """Return Gymnasium's extra for an environment of its own, such as `mujoco`; the entry point contains its name."""
    parts = str(gymnasium.registry[name].entry_point).partition(":")[0].split(".")
    groups = {"mujoco": "mujoco", "box2d": "box2d", "toy_text": "toy-text", "classic_control": "classic-control"}
    return next((groups[part] for part in parts if parts[0] == "gymnasium" and part in groups), "")


def _in_envpool(name: str) -> str:
    """Return a hint if EnvPool, which needs no further packages, is installed and has an environment of this id."""
    try:
        import envpool
    except ImportError:
        return ""
    return f", or use envpool:{name}" if name in envpool.list_all_envs() else ""
