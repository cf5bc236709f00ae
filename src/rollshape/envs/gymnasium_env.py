"""Vector environments of Gymnasium; their metadata defines how they reset.

Resuming repeats the current episodes of `RecordingEnv`s. That leads to the same state, which is verified.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from rollshape.envs import gymnasium_recording
from rollshape.envs.failures import SubEnvError
from rollshape.envs.gymnasium_recording import RecordingEnv, from_words, generator_states, to_words
from rollshape.envs.gymnasium_spaces import encode_observation, encode_observations
from rollshape.envs.host import Flags, HostStep, Snapshot, SpaceEnv, Values, env_seeds, read_success
from rollshape.errors import RequestError

UNSEEDED = -1


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
        if not self.replays or any(part.length > gymnasium_recording.LONGEST for part in self._parts):
            return snapshot
        with self.guard.doing("snapshot"):
            states = [generator_states(part) for part in self._parts]
        before, now = ([to_words(state) for state in column] for column in zip(*states, strict=True))
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
            reached = part.repeat(None if seed == UNSEEDED else int(seed), from_words(before), actions)
        except SubEnvError:
            return False
        same = reached is not None and np.array_equal(
            encode_observation(self._observation_space, self.observation, reached), observation
        )
        return same and to_words(generator_states(part)[1]) == now.tolist()

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
