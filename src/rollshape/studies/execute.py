"""One trial from claim to journal, the same in every engine: what goes wrong is a state with its reason."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rollshape.errors import ToldError
from rollshape.studies.store import Result
from rollshape.training.rundir import RunDirectory
from rollshape.training.spec import Spec

KEPT = 10  # checkpoints of a trial that is probed: between them h is measured
BATCHES = 8  # of the run's shape, collected amid the run: brute force beside the prediction
DEAREST = 4  # times the steps of the training that they may take on the host; a pure function hardly feels them
LENGTH = 1000  # steps of an episode of which nobody has said how long it may be
OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "Cannot allocate memory")


class Interrupted(Exception):
    """The trial was asked to stop; its state is saved and it goes on from there."""


def execute(
    spec: Spec, out: Path, on_row: Callable[[dict[str, Any]], None] | None = None, *, keep: bool = False
) -> Result:
    """Train to the end, from wherever an earlier attempt was stopped; `keep` checkpoints along the way to probe."""
    ended = _ended(spec, out)
    if ended is not None:
        return ended
    from rollshape.training.run import train

    try:
        run = train(
            spec,
            out=out,
            resume=True,
            keep_checkpoints=_kept(spec) if keep and not RunDirectory(out).exists() else None,
            on_row=(lambda row, _: on_row(row)) if on_row else None,
        )
    except MemoryError as error:
        return Result("failed", "out of memory", _text(error))
    except ToldError as error:
        cause = {"environment": "environment error", "disk": "disk"}.get(error.rule, "refused")
        return Result("failed", cause, f"{error.message} {error.fix}".strip())
    except Exception as error:  # an environment is somebody's code and may raise anything
        cause = "out of memory" if any(sign in str(error) for sign in OUT_OF_MEMORY) else "error"
        return Result("failed", cause, _text(error))
    if run.status == "interrupted":
        raise Interrupted
    return _result(run.status, run.summary)


def _kept(spec: Spec) -> int:
    """Ten, or as many as there are logging intervals."""
    updates = spec.plan().num_updates or 1
    return min(KEPT, -(-updates // (spec.log_every or 1)))


def probes(
    out: Path, at: Sequence[float], envs: int, known: Mapping[float, dict[str, Any]] = MappingProxyType({})
) -> Iterator[tuple[float, dict[str, Any]]]:
    """(share of the run, the document of its probe) of those that are not `known` yet, each at the nearest checkpoint
    that was kept.

    h is that of the whole run and measured once, with pictures of cosines; amid the run batches are collected, if they
    are affordable, and other rollout sizes looked at. What cannot be measured leaves its reason instead of a document.
    """
    from rollshape.probes.probe import probe
    from rollshape.probes.rewards import probe_rewards
    from rollshape.training import checkpoint

    spec = RunDirectory(out).spec()
    rewards = spec.algo == "rrd"
    stored = [checkpoint.update_of(path) for path in checkpoint.stored(RunDirectory(out).checkpoints)]
    updates = RunDirectory(out).read()["plan"]["num_updates"]
    horizon: dict[str, Any] | None = None
    for share in at:
        if share in known:
            horizon = horizon or known[share].get("horizon")
            continue
        nearest = min(stored, key=lambda update: abs(update - share * updates))
        amid = share == at[len(at) // 2]
        parts = ["sizes"] * amid + ["batches"] * (amid and affordable(spec)) + ["pictures"] * (share == at[0])
        asked: dict[str, Any] = {"num_envs": envs, "num_batches": BATCHES, "parts": ",".join(parts) or "none"}
        asked |= {} if horizon is None else {"horizon": horizon["value"] or 1.0}
        try:
            if rewards:
                document = probe_rewards(out, nearest).to_dict()
            else:
                found = probe(out, nearest, **asked)
                document = found.to_dict(cosine_maps=True)
        except ToldError as error:
            yield share, {"update": nearest, "error": f"{error.message} {error.fix}".strip()}
            continue
        except Exception as error:  # as in training: the trial has ended well, whatever its probe does
            yield share, {"update": nearest, "error": _text(error)}
            continue
        horizon = horizon or document.get("horizon")
        del document["run_dir"]  # the folder may be moved
        command = document["command"].replace(shlex.quote(str(out)), "RUN_DIR")
        yield share, document | {"command": command} | ({} if rewards else {"horizon": horizon})


def affordable(spec: Spec) -> bool:
    """Whether batches can be collected: each of their environments takes one to two episodes first."""
    from rollshape.envs.registry import kind
    from rollshape.studies.registered import horizon

    if kind(spec.env) == "functional":
        return True
    plan = spec.plan()
    steps = BATCHES * plan.num_envs * (1.5 * (horizon(spec.env) or LENGTH) + plan.num_steps)
    return steps <= DEAREST * spec.total_timesteps


def _ended(spec: Spec, out: Path) -> Result | None:
    """The result of a run that ended just before it could be journalled."""
    directory = RunDirectory(out)
    if not directory.exists():
        return None
    document = directory.read()
    if document["status"] not in ("done", "diverged") or directory.spec() != spec:
        return None
    return _result(document["status"], document["summary"])


def _result(status: str, summary: dict[str, Any]) -> Result:
    told = {name: value for name, value in summary.items() if name != "run_dir"}  # the folder may be moved
    if status == "done":
        return Result("done", summary=told)
    if status == "diverged":
        reason = f"a loss or parameter was not finite after {summary['timesteps']:,} timesteps"
        return Result("diverged", "diverged", reason, told)
    return Result("failed", status, f"the run ended as {status}", told)


def _text(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]
