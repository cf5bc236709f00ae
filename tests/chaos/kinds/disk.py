"""A full disk (a small tmpfs) or a limit on the size of a file while training; then space, and resume."""

from __future__ import annotations

import contextlib
import random
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from chaos.arena import COVERED, SCENARIOS, Arena
from chaos.commands import Result, run_child, run_here
from chaos.faults import Finding, Verdict, kind
from chaos.judge import complaint, judge_resume, message_of, must_resume
from chaos.trees import lost, read_tree

PAGE, LARGE = 4096, "64m"


@contextlib.contextmanager
def small_disk(folder: Path, pages: int) -> Iterator[Path]:
    """Mount a tmpfs of so many pages."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={pages * PAGE}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@cache
def can_mount() -> bool:
    """Return whether this process may mount a tmpfs (root in a container may not)."""
    with tempfile.TemporaryDirectory() as name:
        try:
            with small_disk(Path(name) / "disk", 8):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


@contextlib.contextmanager
def limited_files(size: int) -> Iterator[None]:
    """Let no file grow beyond a size: writing more fails with EFBIG."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@kind("fulldisk", 40, short=3)
def fill_disk(arena: Arena, rng: random.Random) -> Finding:
    reference = arena.run(rng.choice(list(SCENARIOS)))
    files = read_tree(reference.done)
    is_mounted, is_resumed = can_mount() and rng.random() < 0.7, rng.random() < 0.4
    with arena.scratch() as folder, contextlib.ExitStack() as stack:
        if is_mounted:
            most = sum(-(-len(content) // PAGE) for content in files.values()) + 4
            start_pages = 64 if is_resumed else rng.randrange(1, most)
            disk = stack.enter_context(small_disk(folder / "disk", start_pages))
        else:
            disk = folder
        run = disk / "run"
        if is_resumed:
            shutil.copytree(reference.half, run)
        flags = ["--resume"] if is_resumed else []
        what, result = _train_on_full_disk(reference.command(run, *flags), run, disk, is_mounted, rng, files)
        fault = f"{reference.scenario} run{', resumed' if is_resumed else ''}: {what}"
        before_rows = read_tree(reference.half) if is_resumed else {}
        problem = complaint(result)
        if problem is not None:
            return Finding(Verdict.TRACEBACK, fault, problem)
        if result.code != 0 and result.error.get("rule") != "disk":
            return Finding(Verdict.TRACEBACK, fault, f"another message than that of a full disk: {message_of(result)}")
        if missing := lost(_without_checkpoints(before_rows), read_tree(run), last_row=COVERED):
            return Finding(Verdict.LOST, fault, missing)
        if is_mounted:
            _resize(disk, LARGE)
        before = read_tree(run)
        resumed = run_here(reference.command(run, "--resume"))
        finding = must_resume(judge_resume(reference.done, run, before, resumed, f"{fault}; resume"))
        return finding if result.code == 0 else Finding(*_as_refused(finding, message_of(result)))


def _as_refused(finding: Finding, message: str) -> tuple[Verdict, str, str]:
    verdict = Verdict.REFUSED if finding.verdict is Verdict.IDENTICAL else finding.verdict
    return verdict, finding.fault, finding.detail or message


def _without_checkpoints(tree: dict[str, bytes]) -> dict[str, bytes]:
    """Leave out checkpoints: a run that continues deletes old ones."""
    return {name: content for name, content in tree.items() if not name.startswith("checkpoints/")}


def _train_on_full_disk(
    command: list[str], run: Path, disk: Path, is_mounted: bool, rng: random.Random, files: dict[str, bytes]
) -> tuple[str, Result]:
    if not is_mounted:
        size = rng.randrange(1, max(map(len, files.values())) + 1)
        with limited_files(size):
            return f"no file larger than {size:,} bytes", run_here(command)
    if run.exists():  # a disk that has just become full: what is there, and a few pages
        usage = shutil.disk_usage(disk)
        _resize(disk, str(usage.used + rng.randrange(6) * PAGE))
    return f"disk of {shutil.disk_usage(disk).total:,} bytes", run_here(command)


def _resize(disk: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


@kind("fullstdout", 6)
def fill_stdout(arena: Arena, rng: random.Random) -> Finding:
    """Print to a full disk, or to a stdout that is closed."""
    reference, redirection = arena.run("functional"), rng.choice([">/dev/full", ">&-"])
    with arena.scratch() as folder:
        run = folder / "run"
        others = [["plan", "--json"], ["dialects", "--json"], ["plan", "--explain", "all"]]
        command = rng.choice([reference.command(run), *others])
        result = run_child(command, shell=f'exec "$@" {redirection}')
        fault = f"{command[0]} {redirection}"
        if "Traceback" in result.err or result.code not in (0, 1):
            return Finding(Verdict.TRACEBACK, fault, f"exit code {result.code}: {result.err.strip()[-300:]}")
        if command[0] == "train":
            before = read_tree(run)
            return judge_resume(reference.done, run, before, run_here(reference.command(run, "--resume")), fault)
        return Finding(Verdict.REFUSED, fault, result.err.strip()[-200:])
