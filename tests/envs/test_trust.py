"""Which modules a run directory may name: installed or already imported ones."""

import sys
from pathlib import Path

import pytest

from rollshape.envs.modules import split_module
from rollshape.envs.trust import check_module
from rollshape.errors import RequestError


@pytest.mark.parametrize(
    ("env_id", "module"),
    [
        ("CartPole-v1", None), ("gymnasium:CartPole-v1", None), ("envpool:Pong-v5", None), ("tabular:Lake", None),
        ("gymnax:Breakout-MinAtar", None), ("here:Env-v0", "here"), ("gymnasium:here.there:Env-v0", "here.there"),
        ("ALE/Pong-v5", None),
    ],
)  # fmt: skip
def test_the_module_of_an_id(env_id: str, module: str | None) -> None:
    assert split_module(env_id)[0] == module


def test_only_installed_or_imported_modules_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stranger.py").write_text("raise AssertionError('executed')")
    (tmp_path / "folder" / "part").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    for env_id in ("CartPole-v1", "envpool:Pong-v5", "pytest:Env-v0", "gymnasium:mypy.main:Env-v0", "sys:Env-v0"):
        check_module(env_id, "runs/1")
    for module in ("stranger", "stranger.part", "folder.part", "nowhere", "antigravity", ".."):
        for env_id in (f"{module}:Env-v0", f"gymnasium:{module}:Env-v0"):
            with pytest.raises(RequestError) as caught:
                check_module(env_id, "runs/1")
            assert caught.value.rule == "trust"
            assert all(part in caught.value.message for part in ("runs/1", module, "executes"))
            assert "--trust" in caught.value.fix
    assert "stranger" not in sys.modules
    assert str(tmp_path / "stranger.py") in _message("stranger:Env-v0")
    monkeypatch.setitem(sys.modules, "stranger", sys)
    check_module("stranger:Env-v0", "runs/1")  # it is already executed


def _message(env_id: str) -> str:
    with pytest.raises(RequestError) as caught:
        check_module(env_id, "runs/1")
    return caught.value.message


def test_a_module_of_the_current_directory_shadows_an_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_module("mypy:Env-v0", "runs/1")
    (tmp_path / "mypy.py").write_text("raise AssertionError('executed')")
    monkeypatch.syspath_prepend(tmp_path)
    assert str(tmp_path / "mypy.py") in _message("mypy:Env-v0")
