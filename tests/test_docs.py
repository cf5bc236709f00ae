"""Docs are true: generated pages are up to date, and what the README shows is what the commands print."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from rollshape.cli import main

ROOT = Path(__file__).parents[1]


def test_generated_pages_are_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    for name, content in build.pages().items():
        assert (ROOT / "docs" / name).read_text() == content, "run .venv/bin/python docs/build.py"


def shown_commands() -> list[tuple[str, list[str]]]:
    """(command, lines that the README shows for it); an ellipsis stands for lines left out."""
    blocks = re.findall(r"```\n\$ (rollshape .*?)\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    # A run's speed differs each time, and a probe takes a minute: they are tested in tests/training and tests/probes.
    shown = [(command, body.splitlines()) for command, body in blocks]
    return [each for each in shown if " train " not in each[0] and " probe " not in each[0]]


@pytest.mark.parametrize(("command", "lines"), shown_commands())
def test_the_readme_shows_what_is_printed(
    command: str, lines: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(command)[1:]) == 0
    printed = "".join(capsys.readouterr())
    for line in lines:
        assert line.strip(" …") in printed, line


def test_the_readme_shows_enough() -> None:
    assert len(shown_commands()) >= 3
    for link in re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / link).exists(), link
