"""`rollshape train --num-seeds`: the runs of single commands, bit for bit, in processes that may fail or be stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from rollshape.cli import main
from rollshape.envs.host import env_seeds
from rollshape.studies.diagnosis import diagnose
from rollshape.studies.seeds import SeedRuns
from rollshape.training.reproduce import first_difference
from rollshape.training.rundir import RunDirectory
from rollshape.training.setup import open_run

SMALL = ("--env", "FrozenLake-v1", "--num-envs", "16", "--num-steps", "64", "--num-epochs", "1", "--num-minibatches",
         "2", "--hidden-sizes", "4", "--log-every", "2")  # fmt: skip
SHORT = (*SMALL, "--total-timesteps", "8192", "--seed", "3")
LONG = (*SMALL, "--total-timesteps", "400_000", "--checkpoint-every", "100")
SECONDS = 90


def train(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, Any]:
    """Return the exit code of `rollshape train --json`, and its document."""
    code = main(["train", *flags, "--json"])
    return code, json.loads(capsys.readouterr().out)


def assert_identical(first: Path, second: Path) -> None:
    documents = [RunDirectory(path).read() for path in (first, second)]
    assert documents[0]["status"] == documents[1]["status"] == "done"
    for name in ("spec", "plan", "layout"):
        assert documents[0][name] == documents[1][name]
    assert documents[0]["summary"]["final_return"] == documents[1]["summary"]["final_return"]
    rows = [list(RunDirectory(path).rows()) for path in (first, second)]
    assert rows[0]
    assert first_difference(*rows) == ""
    arrays = [jax.tree.leaves(open_run(path).state) for path in (first, second)]
    for one, other in zip(*arrays, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seeds 3 and 4 in the folder `both`, trained together."""
    folder = tmp_path_factory.mktemp("seeds")
    assert main(["train", *SHORT, "--num-seeds", "2", "--out", str(folder / "both"), "--keep-checkpoints", "2"]) == 0
    return folder / "both"


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("seeds") / "unbroken"
    assert main(["train", *LONG, "--num-seeds", "2", "--out", str(out), "--json"]) == 0
    return out


def test_each_seed_is_the_run_of_a_single_command(seeds: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in seeds.iterdir()) == ["seed3", "seed4"]
    for seed in ("3", "4"):
        single = tmp_path / seed
        flags = (*SHORT, "--seed", seed, "--num-shards", "1", "--keep-checkpoints", "2")
        assert main(["train", *flags, "--out", str(single), "--json"]) == 0
        assert RunDirectory(single).read()["layout"]["num_shards"] == 1
        assert_identical(seeds / f"seed{seed}", single)
        names = [[path.name for path in sorted((folder / "checkpoints").iterdir())]
                 for folder in (seeds / f"seed{seed}", single)]  # fmt: skip
        assert names[0] == names[1]
        assert len(names[0]) == 3


def test_finished_seeds_are_summarized_and_start_no_process(
    seeds: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rollshape.studies.seeds.LocalWorker", None)
    before = [path.stat().st_mtime_ns for path in sorted(seeds.rglob("*"))]
    code, document = train(capsys, *SHORT, "--num-seeds", "2", "--out", str(seeds), "--resume")
    assert code == 0
    assert [path.stat().st_mtime_ns for path in sorted(seeds.rglob("*"))] == before
    assert (document["status"], document["num_envs"], document["num_steps"]) == ("done", 16, 64)
    assert document["num_shards"] == 1
    assert [(run["seed"], run["status"], run["timesteps"]) for run in document["seeds"]] == [
        (3, "done", 8192),
        (4, "done", 8192),
    ]
    returns = np.array([run["final_return"] for run in document["seeds"]])
    half = 12.7062 * returns.std(ddof=1) / 2**0.5  # Student's t with one degree of freedom
    over_seeds = document["final_return"]
    assert over_seeds["runs"] == 2
    assert over_seeds["value"] == pytest.approx(returns.mean())
    assert over_seeds["high"] - over_seeds["value"] == pytest.approx(half, rel=1e-4)
    assert len(diagnose(seeds)) == 2


def test_by_default_seeds_are_where_single_runs_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *SHORT, "--num-seeds", "2"]) == 0
    printed = capsys.readouterr().out
    for seed in (3, 4):
        path = f"runs/FrozenLake-v1_ppo_16x64_seed{seed}"
        assert RunDirectory(Path(path)).read()["status"] == "done"
        assert f"seed {seed} done: final return" in printed
        assert path in printed
    assert "mean over 2 of 2 seeds with its 95 % interval: " in printed
    assert main(["train", *SHORT, "--num-seeds", "2"]) == 2
    assert "fix: Use --resume, or another --out." in capsys.readouterr().err


def test_a_process_that_dies_is_named_and_the_other_seeds_finish(
    unbroken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, original = tmp_path / "x", SeedRuns.train
    flags = (*LONG, "--num-seeds", "2", "--out", str(out))

    def train_and_kill(runs: SeedRuns, on_event: Any) -> None:
        def kill(event: Any) -> None:
            on_event(event)
            if event.kind == "row" and event.trial == "seed1":
                os.kill(int((out / "seed1" / ".lock").read_text().split()[0]), signal.SIGKILL)

        original(runs, kill)

    with monkeypatch.context() as patch:
        patch.setattr(SeedRuns, "train", train_and_kill)
        code, document = train(capsys, *flags)
    assert code == 1
    assert document["status"] == "failed"
    assert [run["status"] for run in document["seeds"]] == ["done", "failed"]
    assert "died 2 times" in document["seeds"][1]["reason"]
    assert len(document["notes"]) == 1  # it was tried once more
    assert document["final_return"]["runs"] == 1
    assert main(["train", *flags, "--resume"]) == 0
    assert_identical(out / "seed1", unbroken / "seed1")


FAILING_ENV = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Failing(CartPoleEnv):
    def reset(self, *, seed=None, options=None):
        if seed == BAD_SEED:
            raise RuntimeError("no such level")
        return super().reset(seed=seed, options=options)

gymnasium.register("Failing-v0", Failing, max_episode_steps=20)
"""


def test_a_seed_whose_environment_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (bad_seed,) = env_seeds(1000, 1)
    (tmp_path / "failing_env.py").write_text(FAILING_ENV.replace("BAD_SEED", str(bad_seed)))
    monkeypatch.syspath_prepend(tmp_path)
    flags = ("--env", "failing_env:Failing-v0", "--num-envs", "1", "--num-steps", "16", "--num-epochs", "1")
    flags = (*flags, "--hidden-sizes", "4", "--total-timesteps", "64", "--seed", "999", "--num-seeds", "2")
    assert main(["train", *flags, "--out", str(tmp_path / "x")]) == 1
    shown = capsys.readouterr()
    assert "seed 999 done: final return" in shown.out
    assert "seed 1000 failed: " in shown.out
    assert "no such level" in shown.out
    assert "seed1000 failed" in shown.err  # when it happened
    assert f"failed: {tmp_path / 'x'}" in shown.out


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one core the seeds run one after the other")
def test_a_signal_saves_every_seed_and_resume_reaches_the_identical_end(unbroken: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rollshape.cli", "train", *LONG, "--num-seeds", "2", "--json", "--out"]
    out = tmp_path / "x"
    process = subprocess.Popen([*command, str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + SECONDS
    while not all((out / name / "metrics.jsonl").exists() for name in ("seed0", "seed1")):
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)
    process.terminate()
    printed, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 143
    assert errors == "Interrupted. Run the same command with --resume to continue.\n"
    document = json.loads(printed)
    assert document["status"] == "interrupted"
    assert {run["status"] for run in document["seeds"]} == {"interrupted"}
    for name in ("seed0", "seed1"):
        run = RunDirectory(out / name)
        assert run.read()["status"] == "interrupted"
        assert list(run.rows())[-1]["update"] == int(max(path.stem for path in run.checkpoints.iterdir()))
    assert main(["train", *LONG, "--num-seeds", "2", "--out", str(out), "--resume", "--json"]) == 0
    for name in ("seed0", "seed1"):
        assert_identical(out / name, unbroken / name)


def test_a_folder_of_other_runs_is_refused(
    seeds: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = (*SHORT, "--num-seeds", "2", "--out")
    assert main(["train", *flags, str(seeds)]) == 2
    assert "seed3 already holds a run" in capsys.readouterr().err
    assert main(["train", *flags, str(seeds), "--resume", "--learning-rate", "0.1"]) == 2
    assert "another spec" in capsys.readouterr().err
    assert main(["train", *flags, str(seeds / "seed3")]) == 2
    assert "already holds a run" in capsys.readouterr().err
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert main(["train", *flags, str(seeds / "x")]) == 2
    assert "JAX_PLATFORMS=cpu" in capsys.readouterr().err
