"""Environments that hang, exit or interrupt: one error that names environment and step, within the time limit."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_envs import Bad

from rollshape.envs import access as env_access
from rollshape.envs.access import Countdown, EnvAccess
from rollshape.envs.failures import EnvironmentAbandoned, EnvironmentCrash, EnvironmentFailure
from rollshape.envs.host import HostEnv
from rollshape.envs.pools import make_host
from rollshape.errors import RequestError, RunError

ENV = "bad_envs:RollshapeBad-v0"
LIMIT = 0.4


def bad(access: EnvAccess | None = None, **options: Any) -> HostEnv:
    """Return two faulty environments; the short limit starts after their construction, which a busy machine delays."""
    limited = access or EnvAccess(30)
    env = make_host(ENV, 2, limited, **options)
    if access is None:
        limited.timeout = LIMIT
    return env


def play(env: HostEnv, steps: int = 5) -> None:
    env.reset(0)
    for _ in range(steps):
        env.step(env.clip_action(np.zeros(2)))


def play_and_close(env: HostEnv) -> None:
    play(env)
    env.render()
    env.close()


@pytest.mark.parametrize("fault", ["sleep", "spin"])
@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("reset", "failed at step 0: reset did not return within 0.4 s"),
        ("step", "failed at step 3: step did not return within 0.4 s"),
        ("render", "failed at step 5: render did not return within 0.4 s"),
        ("close", "failed at step 5: close did not return within 0.4 s"),
    ],
)
def test_a_hung_call_is_an_error_in_time(fault: str, at: str, message: str) -> None:
    env: Any = bad(at=at, after=3 if at == "step" else 1, render_mode="rgb_array")
    for part in env._vector.envs:  # not earlier: the construction also closes an environment
        part.unwrapped.fault = fault
    began = time.monotonic()
    with pytest.raises(EnvironmentCrash) as caught:
        play_and_close(env)
    assert caught.value.message == f"{ENV} {message}."
    assert "--env-timeout" in caught.value.fix
    assert time.monotonic() - began < 5
    env.close()  # must not hang again


def test_a_hung_process_of_a_vector_environment_is_killed() -> None:
    env: Any = bad(EnvAccess(20), fault="sleep", after=3, vectorization_mode="async")
    env.guard.access.timeout = LIMIT
    with pytest.raises(EnvironmentCrash, match=r"failed at step 3: step did not return"):
        play(env)
    processes = env._vector.processes
    env.close()
    assert not any(process.is_alive() for process in processes)


def test_a_hung_construction_is_an_error() -> None:
    with pytest.raises(EnvironmentCrash, match="failed at step 0: construction did not return"):
        bad(EnvAccess(LIMIT), fault="sleep", at="init", after=1)


def test_the_limit_is_for_one_environment_of_a_construction(monkeypatch: pytest.MonkeyPatch) -> None:
    create = Bad.__init__

    def create_slowly(self: Bad, **options: Any) -> None:
        time.sleep(0.8)
        create(self, **options)

    monkeypatch.setattr(Bad, "__init__", create_slowly)
    make_host(ENV, 3, EnvAccess(2.0)).close()  # 2.4 s in all, and a busy machine may add 1.2 s to each


@pytest.mark.parametrize(("fault", "name"), [("exit", "SystemExit: 7"), ("interrupt", "KeyboardInterrupt")])
def test_an_environment_cannot_end_this_process(fault: str, name: str) -> None:
    env = bad(fault=fault, after=4)
    with pytest.raises(EnvironmentFailure, match=rf"failed at step 4: .*{name}"):
        play(env)
    with pytest.raises((RequestError, RunError), match=name):
        bad(fault=fault, at="init", after=1)


def test_ctrl_c_is_the_users_and_not_the_environments() -> None:
    env = bad(EnvAccess(30), fault="sleep", after=2)
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        play(env)


def test_a_requested_stop_shortens_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env_access, "GRACE", LIMIT)
    access = EnvAccess(300)
    env = bad(access, fault="sleep", after=2)
    threading.Timer(0.3, access.hurry).start()
    with pytest.raises(EnvironmentAbandoned, match=r"did not return from step 2 within 0.4 s") as caught:
        play(env)
    assert "--resume" in caught.value.fix


def test_a_call_in_another_thread_is_interrupted() -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            play(bad(fault="spin", after=3))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert isinstance(errors[0], EnvironmentCrash)


SCRIPT = f"""
import os, sys, time
import numpy as np
from rollshape.envs.access import EnvAccess
from rollshape.envs.failures import EnvironmentCrash
from rollshape.envs.pools import make_host

def play(fault, timeout):
    env = make_host("{ENV}", 1, EnvAccess(timeout), fault=fault, after=1)
    env.reset(0)
    print("ready", flush=True)
    env.step(env.clip_action(np.zeros(1)))
    env.close()

"""


def start(code: str) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.Popen([sys.executable, "-c", SCRIPT + code], stdout=subprocess.PIPE, text=True, env=environment)


def test_time_in_which_the_process_is_suspended_does_not_count() -> None:
    process = start("play('wait', 1.5)")
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGSTOP)  # as Ctrl-Z does
        time.sleep(2.5)
        process.send_signal(signal.SIGCONT)
        assert process.wait(20) == 0


def test_a_forked_process_has_a_limit_of_its_own() -> None:
    process = start("""
play("none", 30)
if os.fork() == 0:
    try:
        play("sleep", 0.4)
    except EnvironmentCrash:
        os._exit(3)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 3
""")
    assert process.stdout is not None
    with process.stdout:
        assert process.wait(20) == 0


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf"), "5", None])
def test_a_limit_is_a_positive_number(timeout: Any) -> None:
    with pytest.raises(RequestError, match="env_timeout") as caught:
        EnvAccess(timeout)
    assert caught.value.rule == "number-range"


def test_a_countdown_starts_again_when_a_stop_is_requested() -> None:
    access = EnvAccess(300)
    countdown = Countdown(access)
    assert countdown.add(200) < 0
    access.hurry()
    assert countdown.add(1) == 1 - env_access.GRACE
    assert countdown.add(env_access.GRACE) >= 0
    assert EnvAccess(2).limit == 2


@pytest.mark.parametrize("wait", [time.sleep, lambda seconds: threading.Event().wait(seconds)])
def test_a_slow_environment_within_its_limit_is_left_alone(wait: Callable[[float], Any]) -> None:
    env = bad(EnvAccess(1.4))
    env.reset(0)
    for _ in range(3):  # 1.5 s in all
        with env.guard:
            wait(0.5)
