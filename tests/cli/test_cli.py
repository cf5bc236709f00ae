"""The command contract: exit codes, one JSON document, one clear message, never a traceback."""

import io
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from random_configs import random_config, random_size
from rollshape.cli import COMMANDS, main
from rollshape.geometry.dialects import DIALECTS
from rollshape.geometry.rules import PAGES

SB3 = "n_envs: 8\nn_steps: 128\nbatch_size: 64\nn_epochs: 10\nn_timesteps: !!float 1e5\npolicy: MlpPolicy\n"


def run(*argv: str) -> int:
    return main(list(argv))


@pytest.fixture
def sb3(tmp_path: Path) -> str:
    path = tmp_path / "sb3.yaml"
    path.write_text(SB3)
    return str(path)


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_plan_json_has_the_contracts_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--num-envs", "16", "--num_steps=16", "--total-timesteps", "1e6", "--json") == 0
    plan = document(capsys)
    assert plan["minibatch_size"] == 128
    assert plan["minibatch_source"] == "auto"
    assert set(plan) >= {
        "num_envs", "num_steps", "rollout_size", "num_minibatches", "num_epochs", "total_timesteps",
        "actual_timesteps", "num_updates", "gradient_steps", "sample_reuse", "findings", "memory",
    }  # fmt: skip
    assert set(plan["findings"][0]) >= {"rule", "severity", "message", "fix", "source", "numbers"}
    assert set(plan["memory"]) >= {"rollout_bytes", "minibatch_bytes", "peak_bytes"}


def test_plan_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--num-envs", "16", "--num-steps", "16") == 0
    shown = capsys.readouterr().out
    assert "128  (auto) rollout/2" in shown
    assert "[edge-weight]" in shown


def test_plan_rrd(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--transition-batch-size", "256", "--train-batches", "100", "--rrd-batch-size", "256")
    assert run("plan", "--algo", "rrd", *sizes, "--rrd-sample-size", "64", "--json") == 0
    assert document(capsys)["num_subsequences"] == 4
    assert run("plan", "--algo", "rrd", "--preset", "rrd-image") == 0
    assert "num_subsequences" in capsys.readouterr().out


def test_on_remainder(capsys: pytest.CaptureFixture[str]) -> None:
    shape = ("plan", "--num-envs", "10", "--num-steps", "103", "--minibatch-size", "64")
    assert run(*shape) == 2
    assert "6 samples are left over" in capsys.readouterr().err
    assert run(*shape, "--on-remainder", "fix") == 0
    assert "repaired minibatch_size 64 → minibatch_size 103" in capsys.readouterr().out
    assert run(*shape, "--on-remainder", "warn") == 0
    assert "omits 6" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["text", "mermaid", "svg"])
def test_diagrams(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--num-envs", "64", "--num-steps", "32", "--diagram", kind) == 0
    drawn = capsys.readouterr().out
    assert "4 × 512" in drawn
    assert run("plan", "--num-envs", "64", "--num-steps", "32", "--diagram", kind, "--json") == 0
    assert document(capsys)["diagram"] == drawn.rstrip("\n")


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--explain", "edge-weight") == 0
    printed = capsys.readouterr().out
    assert "γ(1−qᵀ)/(T(1−q))" in printed
    assert "refuted on CartPole-v1" in printed
    assert run("plan", "--explain", "edge-weight", "--json") == 0
    assert document(capsys)["claims"][0]["results"][0]["verdict"]
    assert run("plan", "--explain", "all") == 0
    listed = capsys.readouterr().out
    assert all(rule in listed for rule in PAGES)
    assert run("plan", "--explain", "nonsense") == 2


def test_translate(sb3: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("translate", sb3, "--from", "sb3", "--to", "rl_games", "--json") == 0
    result = document(capsys)
    assert set(result) >= {"config", "plan", "not_preserved"}
    assert result["config"]["minibatch_size"] == 64
    assert result["plan"]["num_updates"] == 98
    assert "policy: no counterpart in rl_games" in result["not_preserved"]
    assert run("translate", sb3, "--from", "sb3", "--to", "rl_games") == 0
    shown = capsys.readouterr()
    assert "minibatch_size: 64\n" in shown.out
    assert "# not preserved" in shown.err


def test_what_translate_prints_can_be_translated_back(
    sb3: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("translate", sb3, "--from", "sb3", "--to", "isaaclab:rsl_rl") == 0
    (tmp_path / "there.yaml").write_text(capsys.readouterr().out)
    assert run("translate", str(tmp_path / "there.yaml"), "--from", "isaaclab", "--to", "sb3", "--json") == 0
    assert document(capsys)["config"]["batch_size"] == 64


def test_translate_from_stdin_and_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"num_envs": 8, "num_steps": 128, "num_minibatches": 4})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run("translate", "-", "--from", "cleanrl", "--to", "sb3", "--json") == 0
    assert document(capsys)["config"]["batch_size"] == 256


def test_strict_and_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "zoo.yaml"
    path.write_text("A-v1: {n_envs: 8, n_steps: 128}\nB-v1: {n_envs: 1, n_steps: 64}\n")
    assert run("translate", str(path), "--from", "sb3", "--to", "brax") == 2
    assert "--key A-v1" in capsys.readouterr().err
    assert run("translate", str(path), "--from", "sb3", "--to", "brax", "--key", "A-v1", "--strict") == 2
    assert run("translate", str(path), "--from", "sb3", "--to", "brax", "--key", "A-v1") == 0


def test_dialects(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("dialects") == 0
    assert "horizon_length" in capsys.readouterr().out
    assert run("dialects", "--json") == 0
    known = {entry["name"] for entry in document(capsys)}
    assert {"sb3", "rrd", "isaaclab:skrl", "acme"} <= known
    assert run("dialects", "--name", "brax") == 0
    assert "unroll_length" in capsys.readouterr().out
    assert run("dialects", "--name", "brx") == 2


PATCHED = """\
# my agent
params:
  config:
    num_actors: -1   # from the script
    horizon_length: 16
    minibatch_size: 8192  # big
    mini_epochs: 8
"""


def test_patch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(PATCHED)
    assert run("patch", str(path), "--dialect", "isaaclab", "--num-envs", "16", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "-    minibatch_size: 8192  # big\n+    minibatch_size: 128  # big" in shown
    assert path.read_text() == PATCHED
    assert run("patch", str(path), "--dialect", "rl_games", "--num-envs", "16", "--json") == 0
    result = document(capsys)
    assert result["changes"] == {"params.config.minibatch_size": 128}
    assert result["written"] is True
    assert path.read_text() == PATCHED.replace("8192", "128")
    assert run("patch", str(path), "--dialect", "rl_games", "--num-envs", "16") == 0
    assert "already valid" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv",
    [
        ("plan", "--num-envs", "-1"),
        ("plan", "--num-envs", "0"),
        ("plan", "--num-envs", "1e30"),
        ("plan", "--num-envs", "2.5"),
        ("plan", "--num-envs", "nan"),
        ("plan", "--num-envs", "inf"),
        ("plan", "--num-envs", "lots"),
        ("plan", "--num-envs"),
        ("plan", "--num-env", "4"),
        ("plan", "--algo", "dqn"),
        ("plan", "--gamma", "1.5"),
        ("plan", "--gamma", "nan"),
        ("plan", "--gae-lambda", "inf"),
        ("plan", "--learning-rate", "inf"),
        ("plan", "--learning-rate", "1e-300"),
        ("plan", "--num-epochs", "4294967296"),
        ("plan", "--num-envs", "9" * 5000),
        ("plan", "--obs-shape", "0"),
        ("plan", "--hidden-sizes", "10000000000"),
        ("plan", "--algo", "rrd", "--buffer-size", "1e13"),
        ("plan", "--algo", "sac", "--learning-starts", "-1"),
        ("plan", "stray"),
        ("bench", "--seconds", "nan"),
        ("bench", "--seconds", "inf"),
        ("bench", "--shapes", "4x8", "0x4"),
        ("bench", "--shapes", "4x8", "9999999999999x4"),
        ("bench", "--shapes", "9" * 5000),
        ("eval", "absent", "--episodes", "0"),
        ("eval", "absent", "--episodes", "1e12"),
        ("eval", "absent", "--seed", "-1"),
        ("eval", "absent", "--checkpoint", "-1"),
        ("probe", ""),
        ("probe", "/"),
        ("probe", "absent", "--horizon", "nan"),
        ("report", ""),
        ("report", "/"),
        ("study", "demo", "--out", ""),
        ("study", "demo", "--out", "/"),
        ("study", "demo", "--jobs", "0"),
        ("study", "demo", "--seeds", "-1"),
        ("plan", "--env", "NoSuchEnv-v9"),
        ("plan", "--env", "nosuchmodule:Env-v0"),
        ("plan", "--num-envs", "64", "--num-steps", "32", "--rollout-size", "5"),
        ("plan", "--num-envs", "64", "--num-steps", "32", "--total-timesteps", "5"),
        ("plan", "--obs-shape", "1000000", "1000000", "--num-envs", "64", "--num-steps", "32"),
        ("translate", "absent.yaml", "--from", "sb3", "--to", "cleanrl"),
        ("translate", "x"),
        ("patch", "absent.yaml", "--dialect", "sb3"),
        ("patch", "-", "--dialect", "sb3"),
        ("pla",),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_bad_requests_exit_2_with_one_message(
    argv: tuple[str, ...], as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*argv, *(["--json"] if as_json else [])) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("error [")
    assert len(shown.err.splitlines()) == 2, "a message and its fix"
    assert "Traceback" not in shown.err
    if as_json:
        assert json.loads(shown.out)["error"]["fix"]
    else:
        assert shown.out == ""


@pytest.mark.parametrize(
    "text", ["n_steps: [", "n_steps: 0", "n_step: 4\nn_envs: 2", "a: !!python/name:os.system", "x: 1", "\x00"]
)
def test_a_bad_file_is_never_touched(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    assert run("patch", str(path), "--dialect", "sb3", "--num-envs", "3") == 2
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]
    assert capsys.readouterr().err.startswith("error [")


def test_json_stays_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.json"
    path.write_text('{"num_actors": 3, "horizon_length": 5, "minibatch_size": 5, "mini_epochs": 8}')
    assert run("patch", str(path), "--dialect", "rl_games") == 0
    assert json.loads(path.read_text())["seq_length"] == 1
    assert "+{" in capsys.readouterr().out


def test_a_terminal_without_our_signs() -> None:
    argv = [sys.executable, "-m", "rollshape.cli", "plan", "--num-envs", "16", "--num-steps", "16"]
    for flags in ([], ["--json"]):
        done = subprocess.run([*argv, *flags], capture_output=True, env={"PYTHONIOENCODING": "ascii"}, check=True)
        assert done.stdout


def test_a_read_only_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(PATCHED)
    path.chmod(0o444)
    assert run("patch", str(path), "--dialect", "rl_games", "--num-envs", "16") == 2
    assert "read-only" in capsys.readouterr().err
    assert path.read_text() == PATCHED
    assert run("patch", str(path), "--dialect", "rl_games", "--num-envs", "16", "--dry-run") == 0


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    usage = capsys.readouterr().out
    assert all(command in usage for command in COMMANDS)
    assert run("--version") == 0
    for command in COMMANDS:
        with pytest.raises(SystemExit) as exit_:
            run(command, "--help")
        assert exit_.value.code == 0
        assert "--json" in capsys.readouterr().out


def test_a_reader_that_stops_early_is_no_traceback() -> None:
    script = f"{sys.executable} -m rollshape.cli dialects --json | head -n 1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_a_patched_file_is_already_valid(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, path, patched = random.Random(name), tmp_path / "config.yaml", 0
    for _ in range(12):
        path.write_text(yaml.safe_dump(random_config(source, DIALECTS[name])))
        num_envs = [] if name == "dopamine" else ["--num-envs", str(random_size(source))]
        argv = ["patch", str(path), "--dialect", name, *num_envs]
        if run(*argv) == 2:  # a budget of no update, or a key that has no place
            assert capsys.readouterr().err.startswith("error [")
            continue
        patched += 1
        before = path.read_text()
        capsys.readouterr()
        assert run(*argv) == 0
        assert "already valid" in capsys.readouterr().out
        assert path.read_text() == before
    assert patched > 3
