"""Docs are true: generated pages are up to date, and what the README shows is what the commands print."""

import importlib.util
import re
import shlex
import subprocess
import sys
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


GUIDES = ("docs/getting-started.md", "docs/concepts.md")
PAGES = ("README.md", "docs/planning.md", "docs/configs.md", "docs/training.md", *GUIDES)


def shown_commands(page: str = "README.md") -> list[tuple[str, list[str]]]:
    """(command, lines that a page shows for it); an ellipsis stands for lines left out."""
    blocks = re.findall(r"```\n\$ (rollshape .*?)\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    # A run's speed differs each time, and a probe takes a minute: they are tested in tests/training and tests/probes.
    shown = [(command, body.splitlines()) for command, body in blocks]
    return [each for each in shown if " train " not in each[0] and " probe " not in each[0]]


@pytest.mark.parametrize(("command", "lines"), [shown for page in PAGES for shown in shown_commands(page)])
def test_pages_show_what_is_printed(
    command: str, lines: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(command)[1:]) == 0
    printed = "".join(capsys.readouterr())
    for line in lines:
        assert line.strip(" …") in printed, line


def test_the_readme_shows_enough() -> None:
    assert len(shown_commands()) >= 2
    for link in re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / link).exists(), link


def test_every_command_block_of_the_guides_is_run() -> None:
    """A block that begins with a prompt is one that the test above runs."""
    for page in GUIDES:
        text = (ROOT / page).read_text()
        assert len(shown_commands(page)) == len(re.findall(r"^\$ ", text, flags=re.MULTILINE)) >= 1


@pytest.mark.slow
def test_the_site_builds_without_a_broken_link(tmp_path: Path) -> None:
    written = {path: path.read_text() for path in (ROOT / "docs").glob("*.md")}
    generated = {"commands.md", "python-reference.md"}
    sphinx = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(tmp_path)]
    done = subprocess.run(sphinx, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert all(path.read_text() == text for path, text in written.items() if path.name not in generated)
    assert "rollshape ui" in (tmp_path / "commands.html").read_text()
    assert "getting-started.html" in (tmp_path / "llms.txt").read_text()
