"""Runs in environments that hang, exit or crash: one message, exit code 1, rows and checkpoints kept, resumable."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from rollshape.cli import main
from rollshape.envs import access as env_access
from rollshape.envs.host import HostEnv
from rollshape.errors import RequestError, RunError
from rollshape.training.reproduce import first_difference
from rollshape.training.run import train
from rollshape.training.rundir import RunDirectory
from rollshape.training.setup import new_driver, open_run, plan_run
from rollshape.training.spec import Spec

ENVS = Path(__file__).parents[1] / "envs"
ENV, HEALTHY = "bad_envs:RollshapeBad-v0", "BAD_ENVS_ARE_HEALTHY"
SMALL: dict[str, Any] = {
    "env": ENV, "num_envs": 4, "num_steps": 8, "num_epochs": 1, "total_timesteps": 4 * 8 * 6,
    "hidden_sizes": (8,), "log_every": 1, "checkpoint_every": 1,
}  # fmt: skip
FLAGS = [
    f"--{name.replace('_', '-')}={8 if name == 'hidden_sizes' else value}"
    for name, value in SMALL.items()
]  # fmt: skip


@pytest.fixture(autouse=True)
def _bad_envs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ENVS)


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "run.json").read_text())
    return found


def same(first: Path, second: Path) -> None:
    rows = [list(RunDirectory(path).rows()) for path in (first, second)]
    assert first_difference(*rows) == ""
    leaves = [jax.tree.leaves(open_run(path)[1]) for path in (first, second)]
    for old, new in zip(*leaves, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    ("fault", "isolate", "problem"),
    [
        ("exit", False, "SystemExit: 7"),
        ("interrupt", False, "KeyboardInterrupt"),
        ("sleep", False, "step did not return within 0.8 s."),
        ("segfault", True, "its process was killed by SIGSEGV."),
        ("os-exit", True, "its process ended with exit code 5."),
        ("frozen", True, "step did not return within 3 s."),
    ],
)
def test_a_failed_run_is_resumed_to_the_same_end(
    fault: str, isolate: bool, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = {**SMALL, "env_kwargs": {"fault": fault}}
    with pytest.raises(RunError) as caught:
        train(out=tmp_path / "run", env_timeout=3 if isolate else 0.8, isolate_env=isolate, **request)
    assert caught.value.rule == "environment"
    assert caught.value.message.startswith(f"{ENV} failed at step 20: ")
    assert caught.value.message.endswith(problem)
    assert (document(tmp_path / "run")["status"], len(list(RunDirectory(tmp_path / "run").rows()))) == ("failed", 2)
    assert document(tmp_path / "run")["error"]["message"] == caught.value.message
    monkeypatch.setenv(HEALTHY, "1")
    assert train(out=tmp_path / "run", resume=True, isolate_env=not isolate, **request).status == "done"
    train(out=tmp_path / "whole", **request)
    same(tmp_path / "whole", tmp_path / "run")


@pytest.mark.parametrize("env", ["gymnasium:CartPole-v1", "envpool:CartPole-v1"])
def test_an_isolated_run_is_bit_identical(env: str, tmp_path: Path) -> None:
    changes = {"episodic_reward": True} if env.startswith("gymnasium") else {"stagger": "burn-in"}
    for name, isolate in (("inside", False), ("outside", True)):
        train(out=tmp_path / name, isolate_env=isolate, **{**SMALL, "env": env, **changes})
    same(tmp_path / "inside", tmp_path / "outside")


def test_a_wrong_limit_creates_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RequestError, match="env_timeout"):
        train(out=tmp_path / "run", env_timeout=float("nan"), **SMALL)
    assert main(["train", *FLAGS, "--out", str(tmp_path / "run"), "--env-timeout", "-1"]) == 2
    assert "env_timeout must be a positive number" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_ctrl_c_ends_a_hung_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env_access, "GRACE", 0.5)

    def interrupt(row: dict[str, Any], _: Any) -> None:
        if row["update"] == 2:
            threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

    request = {**SMALL, "env_kwargs": {"fault": "sleep"}}
    with pytest.raises(RunError, match=r"Interrupted: .*RollshapeBad-v0 did not return from step 20 within 0.5 s"):
        train(out=tmp_path / "run", on_row=interrupt, **request)
    assert document(tmp_path / "run")["status"] == "interrupted"
    monkeypatch.setenv(HEALTHY, "1")
    assert train(out=tmp_path / "run", resume=True, **request).status == "done"


def test_a_driver_hurries_all_its_pools() -> None:
    spec = Spec(**SMALL)
    driver = new_driver(spec, plan_run(spec))
    driver.hurry()
    assert isinstance(driver.env, HostEnv)
    assert driver.env.guard.access is not None
    assert driver.env.guard.access.limit == env_access.GRACE
    driver.close()


SCRIPT = """
import sys
from rollshape.envs import access
access.GRACE = 0.5
from rollshape.cli import main
sys.exit(main(sys.argv[1:]))
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(ENVS), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-P", "-c", SCRIPT, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )


@pytest.mark.parametrize("stop", ["time", "ctrl-c"])
def test_code_that_cannot_be_interrupted_ends_the_process(stop: str, tmp_path: Path) -> None:
    """C code that does not return: the process ends, with the message, the document and the status."""
    limit = "1" if stop == "time" else "300"
    arguments = ["--out", str(tmp_path / "run"), "--env-timeout", limit, "--env-kwargs", "fault=deadlock", "--json"]
    process = start("train", *FLAGS, *arguments)
    if stop == "ctrl-c":
        metrics = tmp_path / "run" / "metrics.jsonl"
        while not metrics.exists() or len(metrics.read_text().splitlines()) < 2:
            time.sleep(0.1)
            assert process.poll() is None
        time.sleep(2.0)
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    error = json.loads(out)["error"]
    assert ENV in error["message"]
    assert "step 20" in error["message"]
    assert f"error [environment]: {error['message']}" in err
    assert "Traceback" not in err
    assert document(tmp_path / "run")["status"] == ("failed" if stop == "time" else "interrupted")
    assert len(list(RunDirectory(tmp_path / "run").rows())) == 2


def test_what_environments_print_is_not_on_stdout(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kwargs = ["--env-kwargs", "fault=print", "after=2"]
    out = str(tmp_path / "run")
    commands = [
        ["train", *FLAGS, "--out", out, *kwargs],
        ["eval", out, "--episodes", "2"],
        ["eval", out, "--episodes", "2", "--isolate-env"],
        ["reproduce", out],
        ["train", *FLAGS, "--out", f"{out}-async", *kwargs, "vectorization_mode=async"],
    ]
    for command in commands:
        assert main([*command, "--json"]) == 0
        printed = capfd.readouterr()
        assert isinstance(json.loads(printed.out), dict), command
        assert "printed by the environment" in printed.err


def test_opening_a_run_executes_no_unknown_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train(out=tmp_path / "run", **{**SMALL, "env_kwargs": {}})
    (tmp_path / "unknown_env_module.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_suffix('.txt').touch()\nimport bad_envs\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    changed = document(run.path)
    changed["spec"]["env"] = "unknown_env_module:RollshapeBad-v0"
    RunDirectory(run.path).write(changed)
    for command in (["eval"], ["probe"], ["probe", "--no-figures"], ["reproduce"]):
        assert main([command[0], str(run.path), *command[1:]]) == 2
        assert "error [trust]" in capsys.readouterr().err
    for command in (["report"], ["diagnose"]):
        main([*command, str(run.path)])
    assert not (tmp_path / "unknown_env_module.txt").exists()
    assert main(["eval", str(run.path), "--episodes", "2", "--trust"]) == 0
    assert (tmp_path / "unknown_env_module.txt").exists()
    del sys.modules["unknown_env_module"]
