"""Host environments in a process of their own: a crash or a hang there ends that process, and not the run.

Results are those of the same pool in this process, bit for bit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollshape.envs.access import Countdown, EnvAccess
from rollshape.envs.failures import EnvironmentCrash, EnvironmentFailure
from rollshape.envs.frames import Arrays, Frame, Receiver, send_frame, unpack_json
from rollshape.envs.guard import CallGuard, CallTimeout
from rollshape.envs.host import Flags, HostEnv, HostStep, Snapshot, Values
from rollshape.envs.objects import given_object
from rollshape.envs.spaces import Action, Continuous, Discrete, MultiDiscrete, Observation
from rollshape.errors import RequestError, RollshapeError

TICK = 0.1  # seconds between two looks at a process that does not answer
ERRORS: dict[str, Callable[..., RollshapeError]] = {"request error": RequestError, "failure": EnvironmentFailure}
ACTIONS = {kind.__name__: kind for kind in (Continuous, Discrete, MultiDiscrete)}


class EnvProcess:
    """A process that runs `worker`, and the calls to it."""

    def __init__(self, env_id: str, access: EnvAccess) -> None:
        self.guard = CallGuard(env_id, access, is_remote=True)
        self._access = access
        self._channel, theirs = socket.socketpair()
        self._channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, int(TICK * 1e6)))
        is_main = threading.current_thread() is threading.main_thread()
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; from rollshape.envs.worker import main; "
            f"main({theirs.fileno()}, {os.getpid()}, {is_main})"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=2,  # environments may print; stdout is the command's
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C is for this process; and all that an environment starts ends with it
        )
        theirs.close()
        self._countdown = Countdown(access)
        self._receiver = Receiver(self._channel, self._wait)
        self.stop = weakref.finalize(self, _stop, self._process, self._channel)

    def request(self, word: str, arrays: Arrays | None = None) -> Frame:
        """Send a call and return the answer; raise the error that the process reports, or how it ended."""
        self._countdown = Countdown(self._access)
        try:
            send_frame(self._channel, word, arrays)
            while (frame := self._receiver.receive()).word == "beat":
                self._countdown = Countdown(self._access)
        except (EOFError, OSError):
            raise EnvironmentCrash(self.guard.name, self.guard.step, self._describe_end()) from None
        except BaseException:  # the answer to this call would be taken for that to the next one
            self.stop()
            raise
        if frame.word in ERRORS:
            raise ERRORS[frame.word](**unpack_json(frame))
        return frame

    def _wait(self) -> None:
        """Check a process that has not answered for another tick."""
        if self._process.poll() is not None:
            raise EOFError
        if self._countdown.add(TICK) >= 0:
            raise CallTimeout

    def _describe_end(self) -> str:
        self._channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.returncode
        self.stop()
        if code is None:
            return "its process closed the connection."
        if code >= 0:
            return f"its process ended with exit code {code}."
        name = signal.Signals(-code).name
        return f"its process was killed by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}."


def _stop(process: subprocess.Popen[bytes], channel: socket.socket) -> None:
    """End the process and all that it started."""
    channel.close()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class IsolatedEnv(HostEnv):
    """A pool in another process. Actions are clipped there: their bounds belong to the environment's space."""

    def __init__(self, env_id: str, num_envs: int, options: Mapping[str, Any], access: EnvAccess) -> None:
        self._process = EnvProcess(env_id, access)
        guard = self._process.guard
        with guard.doing("construction"):
            facts = unpack_json(self._process.request("open", _pack(env_id, num_envs, options)))
        observation = Observation(tuple(facts["observation"]["shape"]), facts["observation"]["dtype"])
        super().__init__(facts["name"], num_envs, observation, _read_action(*facts["action"]), facts["max_steps"])
        self.replays = facts["replays"]
        guard.attach(self)

    def clip_action(self, action: Values) -> Values:
        """Return actions in the widest dtype of their kind, which changes no value."""
        return np.asarray(action, np.float64 if isinstance(self.action, Continuous) else np.int64)

    def snapshot(self) -> Snapshot:
        with self.guard.doing("snapshot"):
            return self._process.request("snapshot").arrays

    def restore(self, snapshot: Snapshot) -> bool:
        with self.guard.doing("reset"):
            state = self._process.request("restore", snapshot).arrays
        self.steps = int(state["steps"])
        self._set_current(state["observation"], state["elapsed"])
        return bool(state["is_restored"])

    def _reset(self, seed: int) -> Values:
        return self._process.request("reset", {"seed": np.asarray(seed)}).arrays["observation"]

    def _step(self, action: Values) -> HostStep:
        arrays = self._process.request("step", {"action": action}).arrays
        observation, reward = arrays["observation"], arrays["reward"]
        return HostStep(
            observation,
            reward,
            arrays["terminated"],
            arrays["truncated"],
            arrays.get("final_observation", observation),
            arrays["valid"],
            reward,
            arrays.get("success"),
        )

    def _restart(self, mask: Flags) -> Values:
        return self._process.request("restart", {"mask": mask}).arrays["observation"]

    def _render(self) -> NDArray[np.uint8] | None:
        return self._process.request("render").arrays["image"]

    def _close(self) -> None:
        if self._process.stop.alive:
            try:
                self._process.request("close")
            finally:
                self._process.stop()

    def _abandon(self) -> None:
        self._process.stop()


def inspect_isolated(env_id: str, options: Mapping[str, Any], access: EnvAccess) -> dict[str, Any]:
    """Return `host_facts` of an environment, measured in another process."""
    process = EnvProcess(env_id, access)
    try:
        with process.guard.doing("inspection"):
            facts: dict[str, Any] = unpack_json(process.request("inspect", _pack(env_id, 1, options)))
    finally:
        process.stop()
    return facts | {"obs_shape": tuple(facts["obs_shape"])}


def _pack(env_id: str, num_envs: int, options: Mapping[str, Any]) -> Arrays:
    """Return what the process needs to create the environments, with the registered spec or the object of the id: this
    program may have added it, and its class may be defined in a script."""
    import cloudpickle  # type: ignore[import-untyped]
    import gymnasium

    spec = gymnasium.registry.get(env_id.rpartition(":")[2])
    request = cloudpickle.dumps((env_id, num_envs, dict(options), spec, given_object(env_id)))
    return {"request": np.frombuffer(request, np.uint8)}


def _read_action(kind: str, fields: dict[str, Any]) -> Action:
    if "choices" in fields:
        fields["choices"] = tuple(fields["choices"])
    action: Action = ACTIONS[kind](**fields)
    return action
