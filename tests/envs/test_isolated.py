"""Environments in a process of their own: the same numbers, and a crash or a hang there is an error here."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest
from toy_envs import Walk

from rollshape.envs import access as env_access
from rollshape.envs.access import EnvAccess
from rollshape.envs.failures import EnvironmentAbandoned, EnvironmentCrash, EnvironmentFailure
from rollshape.envs.frames import Receiver, pack_json, send_frame, unpack_json
from rollshape.envs.host import HostEnv, random_actions
from rollshape.envs.inspect import host_facts
from rollshape.envs.isolated import IsolatedEnv
from rollshape.envs.pools import make_host
from rollshape.errors import RequestError

BAD = "bad_envs:RollshapeBad-v0"
LIMIT = 0.7


def isolated(env_id: str, num_envs: int = 2, timeout: float = 30.0, **options: Any) -> HostEnv:
    return make_host(env_id, num_envs, EnvAccess(timeout, isolate=True), **options)


def take_steps(env: HostEnv) -> None:
    for _ in range(5):
        env.step(env.clip_action(np.zeros(2)))


def same_steps(first: HostEnv, second: HostEnv, steps: int = 120, seed: int = 0) -> None:
    """Both pools take the same actions and return the same bits."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        action = random_actions(first, rng)
        one, two = (env.step(env.clip_action(action)) for env in (first, second))
        for name, left, right in zip(one._fields, one, two, strict=True):
            assert (left is None) == (right is None), name
            if left is not None:
                assert (left.dtype, left.tobytes()) == (right.dtype, right.tobytes()), name
        assert (one.final_observation is one.observation) == (two.final_observation is two.observation)
        np.testing.assert_array_equal(first.elapsed, second.elapsed)
        assert first.current.tobytes() == second.current.tobytes()


@pytest.mark.parametrize(
    "env_id",
    [
        "gymnasium:CartPole-v1",
        "gymnasium:Pendulum-v1",
        "envpool:CartPole-v1",
        "envpool:Pong-v5",
        "toy_envs:RollshapeWalk-v0",
    ],
)
def test_steps_snapshots_and_resets_are_bit_identical(env_id: str) -> None:
    inside, outside, later = make_host(env_id, 3), isolated(env_id, 3), isolated(env_id, 3)
    assert (inside.name, inside.observation, inside.action) == (outside.name, outside.observation, outside.action)
    assert (inside.max_steps, inside.replays) == (outside.max_steps, outside.replays)
    steps = 4 if "Pong" in env_id else 120
    np.testing.assert_array_equal(inside.reset(5), outside.reset(5))
    same_steps(inside, outside, steps)
    mask = np.array([True, False, True])
    np.testing.assert_array_equal(inside.restart(mask), outside.restart(mask))
    same_steps(inside, outside, steps, seed=1)
    assert inside.success_rate() == outside.success_rate()
    expected, snapshot = inside.snapshot(), outside.snapshot()
    assert {name: values.tobytes() for name, values in expected.items()} == {
        name: values.tobytes() for name, values in snapshot.items()
    }
    assert later.restore(snapshot) == inside.restore(expected)
    assert later.steps == inside.steps
    same_steps(inside, later, steps, seed=2)
    for env in (inside, outside, later):
        env.close()


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("segfault", "its process was killed by SIGSEGV."),
        ("os-exit", "its process ended with exit code 5."),
        ("sleep", "step did not return within 0.7 s."),
        ("deadlock", "step did not return within 0.7 s."),
        ("frozen", "step did not return within 0.7 s."),
        ("stubborn", "step did not return within 0.7 s."),
    ],
)
def test_a_crash_or_a_hang_is_an_error(fault: str, problem: str) -> None:
    env = isolated(BAD, fault=fault, after=4)
    assert isinstance(env, IsolatedEnv)
    process = env._process._process
    env._process._access.timeout = LIMIT  # the start of a process takes longer
    env.reset(0)
    with pytest.raises(EnvironmentCrash) as caught:
        take_steps(env)
    assert caught.value.message == f"{BAD} failed at step 4: {problem}"
    assert process.returncode is not None  # it is stopped
    env.close()


@pytest.mark.parametrize(
    ("fault", "problem"),
    [("raise", "ZeroDivisionError: by design"), ("exit", "SystemExit: 7"), ("interrupt", "KeyboardInterrupt")],
)
def test_an_exception_is_the_same_error_as_in_this_process(fault: str, problem: str) -> None:
    env = isolated(BAD, fault=fault, after=4)
    env.reset(0)
    with pytest.raises(EnvironmentFailure, match=rf"failed at step 4: .*{problem}"):
        take_steps(env)
    env.close()


def test_a_requested_stop_shortens_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env_access, "GRACE", 0.3)
    env = isolated(BAD, timeout=300, fault="frozen", after=2)
    env.reset(0)
    env.step(env.clip_action(np.zeros(2)))
    env.guard.access.hurry()  # type: ignore[union-attr]
    with pytest.raises(EnvironmentAbandoned, match=r"step 2 within 0.3 s"):
        env.step(env.clip_action(np.zeros(2)))
    env.close()


def test_errors_of_the_construction_are_the_same() -> None:
    for env_id, options in (
        ("NoSuchEnv-v0", {}),
        ("envpool:NoSuchEnv-v0", {}),
        ("gymnasium:CartPole-v1", {"weight": 3}),
    ):
        messages = []
        for access in (EnvAccess(), EnvAccess(isolate=True)):
            with pytest.raises(RequestError) as caught:
                make_host(env_id, 2, access, **options)
            messages.append((caught.value.rule, caught.value.message, caught.value.fix))
        assert messages[0] == messages[1]


def test_a_class_of_a_script_and_images_cross_the_border() -> None:
    """An id that this program registered with a class that no other process can import."""
    local: Any = type("Local", (Walk,), {"__module__": "__main__"})
    gymnasium.register("RollshapeLocal-v0", entry_point=local)
    env = isolated("RollshapeLocal-v0")
    assert env.reset(0).shape == (2, 2)
    env.close()
    pool = isolated("envpool:CartPole-v1")
    with pytest.raises(RequestError, match="cannot be rendered"):
        pool.render()
    pool.close()
    drawn = isolated("bad_envs:RollshapeBad-v0", render_mode="rgb_array")
    drawn.reset(0)
    assert drawn.render().shape == (8, 8, 3)
    drawn.close()


def test_facts_are_measured_in_the_other_process() -> None:
    env_id = "gymnasium:CartPole-v1"
    facts, expected = host_facts(env_id, EnvAccess(isolate=True)), host_facts(env_id, EnvAccess())
    measured = {"env_bytes", "library_bytes"}  # resident memory: differs from process to process
    assert facts.keys() == expected.keys() > measured
    assert all(facts[name] == expected[name] for name in facts.keys() - measured)
    with pytest.raises(EnvironmentCrash, match="killed by SIGSEGV"):
        host_facts(BAD, EnvAccess(30, isolate=True), fault="segfault", at="init", after=1)


CHILD = """
import os, sys, numpy as np
from rollshape.envs.access import EnvAccess
from rollshape.envs.pools import make_host
env = make_host("bad_envs:RollshapeBad-v0", 2, EnvAccess(300, isolate=True), fault=sys.argv[1], after=2)
print(env._process._process.pid, flush=True)
env.reset(0)
while True:
    env.step(env.clip_action(np.zeros(2)))
"""


@pytest.mark.parametrize("fault", ["none", "deadlock", "frozen"])
def test_no_process_outlives_a_killed_parent(fault: str) -> None:
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, "-c", CHILD, fault],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    time.sleep(1.0)
    assert psutil.pid_exists(child)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while psutil.pid_exists(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(child)


def test_messages_keep_every_array() -> None:
    import socket

    arrays = {
        "scalar": np.asarray(7), "flags": np.array([True, False, True]), "empty": np.zeros((0, 3), np.float32),
        "words": np.array([[2**64 - 1]], np.uint64), "view": np.arange(12.0).reshape(3, 4).T,
    }  # fmt: skip
    one, two = socket.socketpair()
    with one, two:
        send_frame(one, "step", arrays)
        send_frame(one, "open", pack_json({"low": float("inf")}))
        receiver = Receiver(two)
        frame = receiver.receive()
        assert frame.word == "step"
        for name, values in arrays.items():
            np.testing.assert_array_equal(frame.arrays[name], values)
            assert (frame.arrays[name].dtype, frame.arrays[name].shape) == (values.dtype, values.shape)
            assert frame.arrays[name].flags.aligned
        assert unpack_json(receiver.receive()) == {"low": float("inf")}
        one.close()
        with pytest.raises(EOFError):
            receiver.receive()
