"""check-env: every check passes for good environments, and fails for one that is wrong in this way."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_envs
from jax import Array
from test_functional import Counter

from rollshape.cli import main
from rollshape.envs.check import EnvReport, check_env
from rollshape.envs.functional import FunctionalEnv, StepResult


def statuses(report: EnvReport) -> dict[str, str]:
    return {check.name: check.status for check in report.checks}


def message(report: EnvReport, name: str) -> str:
    return next(check.message for check in report.checks if check.name == name)


@dataclass(frozen=True)
class Faulty(Counter):
    """A counter that is wrong in one of several ways."""

    fault: str = ""

    def reset(self, key: Array) -> tuple[Any, Any]:
        state, observation = super().reset(key)
        if self.fault == "reset dtype":
            observation = observation.astype(jnp.int32)
        return state, observation

    def step(self, key: Array, state: Any, action: Array) -> StepResult:
        result = super().step(key, state, action)
        match self.fault:
            case "shape":
                return result._replace(observation=jnp.zeros(2))
            case "reward":
                return result._replace(reward=jnp.ones((1,)))
            case "terminated":
                return result._replace(terminated=result.terminated.astype(jnp.float32))
            case "state":
                return result._replace(state=result.state.astype(jnp.float32))
            case "random":
                return result._replace(reward=jnp.float32(np.random.default_rng().random()))
            case "branch":
                return result if result.terminated else result._replace(reward=jnp.float32(0))
            case "nan":
                return result._replace(reward=jnp.where(result.state > 2, jnp.nan, 0.0))
            case "own reset":
                ended = result.terminated
                state = jnp.where(ended, 0, result.state)
                return result._replace(state=state, observation=state[None].astype(jnp.float32))
        return result


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("reset dtype", "reset"), ("shape", "step"), ("reward", "step"), ("terminated", "step"), ("state", "state"),
        ("random", "pure"), ("branch", "jit"), ("nan", "finite"), ("own reset", "reset at the end"),
    ],
)  # fmt: skip
def test_faults_of_functional_environments(fault: str, check: str) -> None:
    report = check_env(Faulty(end=6, max_steps=20, fault=fault), steps=60)
    assert statuses(report)[check] == "fail", str(report)
    assert not report.passed
    assert next(name for name, status in statuses(report).items() if status == "fail") == check


def test_a_good_functional_environment() -> None:
    report = check_env(Counter(end=6, max_steps=20))
    assert set(statuses(report).values()) == {"pass"}, str(report)
    assert (report.kind, report.observation, report.max_steps) == ("functional", "1 float32", 20)
    assert "terminated" in message(report, "episode ends")


class Clock(FunctionalEnv):
    """Terminates at a fixed step, which is a time limit that is not reported as one."""

    name, observation, action, max_steps = "Clock", Counter.observation, Counter.action, None

    def reset(self, key: Array) -> Any:
        return jnp.zeros((), jnp.int32), jax.random.uniform(key, (1,))

    def step(self, key: Array, state: Array, action: Array) -> StepResult:  # noqa: ARG002
        return StepResult(state + 1, jax.random.uniform(key, (1,)), jnp.ones(()), state + 1 >= 5)


def test_time_limits_that_look_like_terminations_are_reported() -> None:
    report = check_env(Clock(), steps=30)
    assert statuses(report)["time limit"] == statuses(report)["episode ends"] == "warn"
    assert "exactly 5 steps" in message(report, "episode ends")
    assert report.passed  # it may be the task
    never = check_env(Counter(end=999, max_steps=None), steps=5)
    assert statuses(never)["episode ends"] == "warn"


def test_a_good_host_environment() -> None:
    report = check_env("toy_envs:RollshapeWalk-v0", steps=40)
    assert set(statuses(report).values()) == {"pass"}, str(report)
    assert {"values", "autoreset", "determinism", "seeds", "resume", "bounds", "speed"} <= set(statuses(report))
    assert "truncated" in message(report, "episode ends")


@pytest.mark.parametrize("fault", ["raises", "nan", "reward", "shape", "dtype"])
def test_faults_of_host_environments(fault: str) -> None:
    report = check_env("RollshapeFaulty-v0", env_kwargs={"fault": fault}, steps=8)
    assert statuses(report) == {"values": "fail"}
    assert "step 3" in message(report, "values")


def test_randomness_that_no_seed_reaches() -> None:
    report = check_env("RollshapePrivate-v0", steps=8)
    assert statuses(report)["determinism"] == "fail"
    assert statuses(report)["resume"] == "warn"


class Long(toy_envs.Endless):
    """Ignores its seed, leaves its space, and runs longer than the time limit it claims."""

    spec = gymnasium.envs.registration.EnvSpec("Long-v0", max_episode_steps=3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.position = 0.0
        return self.observed(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, *_ = super().step(action)
        return observation * 100, reward, False, self.steps >= 9, {}


def test_time_limit_seeds_and_bounds() -> None:
    report = check_env(Long, steps=30)
    assert statuses(report)["time limit"] == "fail"
    assert "9 steps" in message(report, "time limit")
    assert statuses(report)["seeds"] == statuses(report)["bounds"] == "warn"


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-env", "CartPole-v1", "--steps", "100"]) == 0
    assert "pass  jit" in capsys.readouterr().out
    flags = ["--env-kwargs", "fault=raises", "--steps", "8"]
    assert main(["check-env", "RollshapeFaulty-v0", *flags, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["passed"], document["kind"]) == (False, "host")
    assert document["checks"][0]["status"] == "fail"
    assert main(["check-env", "NoSuchEnv-v9"]) == 2
    assert "error [environment]" in capsys.readouterr().err
    assert main(["check-env", "CartPole-v1", "--steps", "0"]) == 2


def test_a_program_can_train_after_a_check(tmp_path: Path) -> None:
    code = (
        "import rollshape; rollshape.check_env('CartPole-v1', steps=4); "
        "rollshape.train(num_envs=4, num_steps=4, total_timesteps=16, num_shards=2, final_episodes=0, out='run')"
    )
    environment = {name: value for name, value in os.environ.items() if name != "JAX_NUM_CPU_DEVICES"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
