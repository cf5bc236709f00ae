"""Child processes import nothing from the current directory, and a signal interrupts a command exactly once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rollshape.processes import RaisingSignals, SignalReceived, safe_child_path

ASYNC = """
if __name__ == "__main__":
    from rollshape.envs.gymnasium_make import make_gymnasium
    make_gymnasium("CartPole-v1", 1, "async").close()
"""
PEERS = """
from rollshape.training.peers import installed
print(installed())
"""


@pytest.mark.parametrize("script", [ASYNC, PEERS])
def test_no_child_runs_a_module_of_the_current_directory(script: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(script)
    folder = tmp_path / "here"
    folder.mkdir()
    for name in ("multiprocessing", "importlib", "stable_baselines3"):
        (folder / f"{name}.py").write_text(f"open({str(folder / name)!r} + '.ran', 'w')\n")
    command = [sys.executable, str(tmp_path / "script.py")]  # like an installed script: from a folder of its own
    outcome = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert list(folder.glob("*.ran")) == []
    assert outcome.returncode == 0, outcome.stderr
    assert "sb3" not in outcome.stdout


def test_the_variable_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "x")
    with safe_child_path():
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert os.environ["PYTHONSAFEPATH"] == "x"
    monkeypatch.delenv("PYTHONSAFEPATH")
    with safe_child_path():
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert "PYTHONSAFEPATH" not in os.environ


IGNORED = """
import gc, os, signal, sys, time
from rollshape.processes import RaisingSignals, SignalReceived

def collect(phase, _):
    if phase == "start":
        os.kill(os.getpid(), signal.SIGTERM)

try:
    with RaisingSignals(lambda _: 7):
        gc.callbacks.append(collect)
        gc.collect()  # Python ignores what is raised in there
        gc.callbacks.clear()
        time.sleep(60)
except SignalReceived as error:
    print(error)
"""
IMPORTING = """
import os, signal, sys
from rollshape.processes import RaisingSignals
sys.path.append(sys.argv[1])
with RaisingSignals(lambda number: print(number.name, flush=True) or 7):
    import kills
"""


def run_script(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)


def test_a_signal_that_python_ignores_is_sent_again() -> None:
    outcome = run_script(IGNORED)
    assert outcome.stdout == "SIGTERM\n", outcome.stderr
    assert outcome.stderr == ""


def test_a_signal_during_an_import_ends_the_process(tmp_path: Path) -> None:
    (tmp_path / "kills.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    outcome = run_script(IMPORTING, str(tmp_path))
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (7, "SIGINT\n", "")


def test_handlers_are_restored_and_ignored_signals_stay_ignored() -> None:
    before, hook = signal.signal(signal.SIGTERM, signal.SIG_IGN), sys.unraisablehook
    try:
        with RaisingSignals(lambda _: 7):
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(SignalReceived, match="SIGINT"):
                os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert sys.unraisablehook is hook
    finally:
        signal.signal(signal.SIGTERM, before)
