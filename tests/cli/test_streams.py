"""Closed, full and broken standard streams, and arguments that are not text: an exit code, never a traceback."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = f"{sys.executable} -m rollshape.cli"


def shell(script: str) -> tuple[int, str]:
    """Run a script; return the exit code of its first command and what was printed to stderr."""
    done = subprocess.run(
        ["bash", "-c", f"{script}; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("command", "redirection", "code"),
    [
        ("plan", ">&-", 0),  # as with /dev/null
        ("plan --json", ">&- 2>&- <&-", 0),
        ("plan --num-envs x --json", ">&-", 2),
        ("plan --num-envs x", "2>&-", 2),
        ("plan --num-envs x", "2>/dev/full", 2),
        ("plan --json", "| head -0", 1),
        ("plan --num-envs x --json", "| head -0", 1),
        ("plan --help", ">&-", 0),
        ("dialects", ">/dev/full", 1),
        ("plan --num-envs x --json", ">/dev/full", 1),
    ],
)
def test_streams(command: str, redirection: str, code: int) -> None:
    prefix = "sleep 0.2; " if "head" in redirection else ""  # until the pipe is closed
    assert shell(f"( {prefix}{COMMAND} {command} ) {redirection}")[0] == code


def test_a_full_disk_is_one_message() -> None:
    assert shell(f"{COMMAND} plan --json >/dev/full") == (1, "error: No space left on device\n")


def test_a_file_never_takes_the_place_of_a_closed_stream() -> None:
    script = (
        "from rollshape.cli.streams import open_missing_streams; open_missing_streams(); "
        "import os; print(os.open(os.devnull, os.O_RDONLY) > 2 and os.fstat(1).st_rdev == os.stat(os.devnull).st_rdev, "
        "file=open('/dev/fd/9', 'w'))"
    )
    done = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "{script}" 9>&1 >&- 2>&- <&-'], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


@pytest.mark.parametrize("arguments", ["plan --env $'\\xff'", "$'\\xff'", "train --out $'a\\xff' --json"])
def test_bytes_that_are_not_text(arguments: str) -> None:
    code, error = shell(f"{COMMAND} {arguments}")
    assert code == 2
    assert "is not UTF-8 text" in error
    assert error.startswith("error [flags]: ")


def test_with_json_libraries_and_children_print_to_stderr_at_any_time() -> None:
    script = (
        "import atexit, os, sys, rollshape.cli as cli; dispatch = cli._dispatch\n"
        "def noisy(arguments):\n"
        "    os.write(1, b'from C '); os.system('echo from a child'); return dispatch(arguments)\n"
        "cli._dispatch = noisy; sys.argv = ['rollshape', 'plan', '--json']\n"
        "atexit.register(os.write, 1, b'at exit from C '); atexit.register(print, 'at exit')\n"
        "sys.exit(cli.run_process())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["num_envs"] > 0
    for text in ("from C", "from a child", "at exit from C", "at exit\n"):
        assert text in done.stderr


def test_an_interrupt_during_an_import_while_stdout_is_redirected_is_one_document(tmp_path: Path) -> None:
    (tmp_path / "slow_import.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    script = (
        "import sys, rollshape.cli as cli\n"
        "from rollshape.cli.streams import redirected_stdout\n"
        "def importing(arguments):\n"
        "    with redirected_stdout():\n"
        "        import slow_import\n"
        "cli._dispatch = importing; sys.exit(cli.main(['plan', '--json']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 130
    assert json.loads(done.stdout)["error"]["rule"] == "interrupted"
