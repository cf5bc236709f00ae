"""Modules of the current folder: found for what the user names, never for what a file names."""

import subprocess
import sys
from pathlib import Path

import pytest

from rollshape.cli import main
from rollshape.envs.modules import load_module
from rollshape.errors import RequestError

MODULE = """
import gymnasium
import rollshape_folder_helper
from gymnasium.envs.classic_control import CartPoleEnv
from rollshape.envs.classic import CartPole
import rollshape

gymnasium.register("FolderPole-v0", CartPoleEnv, max_episode_steps=7)

class FolderPole(CartPoleEnv):
    pass

rollshape.register("FolderFunctional-v0", CartPole(name="Mine", max_steps=9))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "rollshape_folder_env.py").write_text(MODULE)
    (tmp_path / "rollshape_folder_helper.py").write_text("")
    (tmp_path / "numpy.py").write_text("raise AssertionError('hides an installed package')")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_finds_modules_of_the_current_folder(folder: Path) -> None:
    code = "import sys; from rollshape.cli import main; sys.exit(sum(main(['check-env', *a.split()]) for a in sys.argv[1:]))"  # noqa: E501
    requests = [
        f"rollshape_folder_env:{name} --steps 20" for name in ("FolderPole-v0", "FolderPole", "FolderFunctional-v0")
    ]
    command = [sys.executable, "-P", "-c", code, *requests]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for words in ("FolderPole-v0 (host)", "FolderPole (host)", "FolderFunctional-v0 (functional)"):
        assert f"rollshape_folder_env:{words}" in done.stdout
    assert [line.rpartition("limit ")[2] for line in done.stdout.splitlines() if "observation 4" in line] == [
        "7",
        "none",
        "9",
    ]


def test_files_may_not_name_modules_of_the_current_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "study.yaml").write_text("env: rollshape_folder_env:FolderPole-v0\ngrid: {num_envs: [2]}\nseeds: 1\n")
    (folder / "config.yaml").write_text("env_id: rollshape_folder_env:FolderPole-v0\nnum_envs: 4\nnum_steps: 8\n")
    assert main(["study", "study.yaml"]) == 2
    assert main(["train", "--config", "config.yaml", "--from", "cleanrl"]) == 2
    message = capsys.readouterr().err
    assert message.count("error [trust]") == 2
    assert message.count("--env rollshape_folder_env:FolderPole-v0") == 2
    assert str(folder / "rollshape_folder_env.py") in message
    assert "rollshape_folder_env" not in sys.modules


def test_unknown_modules_are_one_message(folder: Path) -> None:
    with pytest.raises(RequestError, match="neither installed nor in the current folder") as caught:
        load_module("gymnaxx", "gymnaxx:CartPole-v1")
    assert "Did you mean gymnax:CartPole-v1" in caught.value.fix
    (folder / "rollshape_folder_broken.py").write_text("import rollshape_nothing_like_this")
    with pytest.raises(RequestError, match="rollshape_nothing_like_this"):
        load_module("rollshape_folder_broken", "rollshape_folder_broken:Env-v0")
    sys.path.remove(str(folder))
