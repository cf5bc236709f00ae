"""The process of isolated environments: it creates a pool and executes the calls that the parent process sends.

It ends when its socket is closed, so it never outlives the process that started it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import threading
from dataclasses import asdict
from typing import Any

import numpy as np

from rollshape.envs.failures import EnvironmentFailure
from rollshape.envs.frames import Arrays, Frame, Receiver, pack_json, send_frame
from rollshape.envs.guard import CallGuard
from rollshape.envs.host import HostEnv
from rollshape.envs.objects import provide
from rollshape.envs.pools import make_pool
from rollshape.errors import RequestError

PR_SET_PDEATHSIG = 1
STEP_FIELDS = ("observation", "reward", "terminated", "truncated", "valid")


def main(descriptor: int, parent: int, has_lasting_parent: bool) -> None:
    """Serve the parent until it closes the socket; `has_lasting_parent`: its main thread started this process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # the parent decides; not SIG_IGN, which other processes would inherit
    os.set_inheritable(descriptor, False)
    channel = socket.socket(fileno=descriptor)
    _end_with_parent(channel, parent, has_lasting_parent)
    server, receiver = _Server(channel), Receiver(channel)
    while True:
        try:
            server.answer(receiver.receive())
        except EOFError:
            os._exit(0)


def _end_with_parent(channel: socket.socket, parent: int, has_lasting_parent: bool) -> None:
    """End with the parent, even while an environment hangs: by the kernel where it can, and by a thread."""

    def wait() -> None:
        closed = select.poll()
        closed.register(channel, 0)  # reports only that the other end was closed
        closed.poll()
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()
    if has_lasting_parent and hasattr(prctl := ctypes.CDLL(None), "prctl"):  # it is the thread whose end counts
        prctl.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


class _Server:
    """Executes calls; the answer has the same word, or is an error."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._pool: HostEnv  # `open` is the first call

    def answer(self, frame: Frame) -> None:
        try:
            arrays = getattr(self, f"_{frame.word}")(frame.arrays)
        except RequestError as error:
            fields: dict[str, Any] = {"rule": error.rule, "message": error.message, "fix": error.fix}
            send_frame(self._channel, "request error", pack_json(fields))
        except EnvironmentFailure as error:
            fields = {"name": error.name, "step": error.step, "problem": error.problem, "fix": error.fix}
            send_frame(self._channel, "failure", pack_json(fields))
        else:
            send_frame(self._channel, frame.word, arrays)

    def _inspect(self, arrays: Arrays) -> Arrays:
        from rollshape.envs.inspect import host_facts

        env_id, _, options = _unpack(arrays)
        return pack_json(host_facts(env_id, **options))

    def _open(self, arrays: Arrays) -> Arrays:
        env_id, num_envs, options = _unpack(arrays)
        with CallGuard(env_id).doing("construction"):
            self._pool = make_pool(env_id, num_envs, options, lambda: send_frame(self._channel, "beat"))
        return pack_json(
            {
                "name": self._pool.name,
                "observation": asdict(self._pool.observation),
                "action": [type(self._pool.action).__name__, asdict(self._pool.action)],
                "max_steps": self._pool.max_steps,
                "replays": self._pool.replays,
            }
        )

    def _reset(self, arrays: Arrays) -> Arrays:
        return {"observation": self._pool.reset(int(arrays["seed"]))}

    def _step(self, arrays: Arrays) -> Arrays:
        pool = self._pool
        result = pool.step(pool.clip_action(arrays["action"]))
        answer = {name: getattr(result, name) for name in STEP_FIELDS}
        if result.final_observation is not result.observation:
            answer["final_observation"] = result.final_observation
        return answer if result.success is None else answer | {"success": result.success}

    def _restart(self, arrays: Arrays) -> Arrays:
        mask = arrays["mask"]
        return {"observation": self._pool.restart(mask)[mask]}

    def _snapshot(self, _: Arrays) -> Arrays:
        return self._pool.snapshot()

    def _restore(self, arrays: Arrays) -> Arrays:
        is_restored = self._pool.restore(dict(arrays))
        state = {"observation": self._pool.current, "elapsed": self._pool.elapsed}
        return state | {"is_restored": np.asarray(is_restored), "steps": np.asarray(self._pool.steps)}

    def _render(self, _: Arrays) -> Arrays:
        return {"image": self._pool.render()}

    def _close(self, _: Arrays) -> Arrays:
        self._pool.close()
        return {}


def _unpack(arrays: Arrays) -> tuple[str, int, dict[str, Any]]:
    """Return (id, number of environments, options); register the id or its object as in the parent."""
    import cloudpickle  # type: ignore[import-untyped]
    import gymnasium

    env_id, num_envs, options, spec, given = cloudpickle.loads(arrays["request"].tobytes())
    if given is not None:
        provide(env_id, given)
    if spec is not None:
        gymnasium.registry.setdefault(spec.id, spec)
    return env_id, num_envs, options
