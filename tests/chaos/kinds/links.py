"""Symbolic links planted in a run or a study: what they point to must stay as it is."""

from __future__ import annotations

import random
from pathlib import Path

from chaos.arena import Arena
from chaos.commands import run_here
from chaos.faults import Finding, Verdict, kind
from chaos.judge import complaint, message_of, run_difference
from chaos.trees import copy_tree

VICTIM = b"precious\n"
PLANTED = (
    ".run.json.writing", ".metrics.jsonl.writing", ".report.html.writing", ".report.md.writing", "report.html",
    "report.md", "report", "lock", ".lock", "owner", "run.lock", "checkpoints/.000000009.eqx.writing",
    "checkpoints/000000009.eqx", "checkpoints/000000012.eqx", "checkpoints/000000012.npz", "metrics.jsonl", "run.json",
    "probes", "tb",
)  # fmt: skip


@kind("links", 30, short=2)
def plant_link(arena: Arena, rng: random.Random) -> Finding:
    reference, name = arena.run(rng.choice(["functional", "host"])), rng.choice(PLANTED)
    command = "report" if "report" in name else rng.choice(["resume", "resume", "report", "train"])
    with arena.scratch() as folder:
        run, victim = folder / "run", folder / "victim"
        if command == "train":
            (run / "checkpoints").mkdir(parents=True)
        else:
            copy_tree(reference.half, run)
        _plant(run / name, victim, is_folder=name in ("report", "probes", "tb"))
        before = victim.read_bytes() if victim.is_file() else b""
        fault = f"{reference.scenario} run: {name} links to a file of the user's; {command}"
        argv = {
            "resume": reference.command(run, "--resume"),
            "train": reference.command(run),
            "report": ["report", str(run), "--json"],
        }[command]
        result = run_here(argv)
        if problem := complaint(result):
            return Finding(Verdict.TRACEBACK, fault, problem)
        changed = sorted(path.name for path in victim.iterdir()) if victim.is_dir() else victim.read_bytes() != before
        if changed:
            return Finding(Verdict.LOST, fault, f"the user's file or folder has changed: {changed}")
        if result.code != 0:
            return Finding(Verdict.REFUSED, fault, message_of(result))
        difference = None if command == "report" else run_difference(reference.done, run)
        return Finding(Verdict.SILENT if difference else Verdict.IDENTICAL, fault, difference or "")


def _plant(link: Path, victim: Path, *, is_folder: bool) -> None:
    """Point a name to a file of the user's; one that replaces run.json can be read as such."""
    if is_folder:
        victim.mkdir()
    else:
        victim.write_bytes(link.read_bytes() if link.name == "run.json" and link.is_file() else VICTIM)
    link.unlink(missing_ok=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(victim)
