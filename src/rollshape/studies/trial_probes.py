"""Probe a finished trial at given shares of its run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rollshape.errors import RollshapeError
from rollshape.geometry.algorithms import RULES as ALGORITHM_RULES
from rollshape.studies.gymnasium_registry import max_episode_steps
from rollshape.studies.trial_runner import describe_error
from rollshape.training.rundir import RunDirectory
from rollshape.training.spec import Spec

NUM_BATCHES = 8  # collected at the run's own shape in the middle probe, to check its prediction
MAX_COST = 4  # times the training's steps that collecting them may take on the host; functional environments are cheap
DEFAULT_EPISODE_STEPS = 1000  # where no time limit is registered


def probe_trial(
    out: Path,
    shares: Sequence[float],
    num_envs: int,
    known: Mapping[float, Mapping[str, Any]] = MappingProxyType({}),
) -> Iterator[tuple[float, dict[str, Any]]]:
    """Yield (share of the run, document of the probe) at the nearest kept checkpoints, except where it is `known`.

    h is a property of the whole run: it is measured once, by the first probe, which also draws the cosines. The middle
    probe also looks at other rollout sizes and, where that is affordable, collects batches. A probe that fails yields
    its error instead of a document.
    """
    from rollshape.training import checkpoint

    directory = RunDirectory(out)
    spec = directory.spec()
    updates = [checkpoint.update_of(path) for path in checkpoint.stored(directory.checkpoints)]
    num_updates = spec.plan().num_updates or 1
    horizon: Mapping[str, Any] | None = None
    for share in shares:
        if share in known:
            horizon = horizon or known[share].get("horizon")
            continue
        update = min(updates, key=lambda update: abs(update - share * num_updates))
        try:
            if ALGORITHM_RULES[spec.algo].uses_subsequences:
                document = _probe_rewards(out, update)
            else:
                parts = _parts(share, shares, spec)
                document = _probe_gradient(out, update, num_envs, parts, horizon)
                horizon = horizon or document["horizon"]
        except RollshapeError as error:
            document = {"update": update, "error": f"{error.message} {error.fix}".strip()}
        except Exception as error:  # as in training; the trial itself has finished and stays so
            document = {"update": update, "error": describe_error(error)}
        yield share, document


def _parts(share: float, shares: Sequence[float], spec: Spec) -> list[str]:
    """Return what a probe measures in addition to variance, bias and the surface."""
    is_middle = share == shares[len(shares) // 2]
    parts = ["sizes"] * is_middle + ["batches"] * (is_middle and can_collect_batches(spec))
    return parts + ["pictures"] * (share == shares[0])


def _probe_gradient(
    out: Path, update: int, num_envs: int, parts: Sequence[str], horizon: Mapping[str, Any] | None
) -> dict[str, Any]:
    from rollshape.probes.probe import probe

    options: dict[str, Any] = {"num_envs": num_envs, "num_batches": NUM_BATCHES, "parts": ",".join(parts) or "none"}
    if horizon is not None:
        options["horizon"] = horizon["value"] or 1.0
    result = probe(out, update, trust=True, **options)
    document = _movable(result.to_dict(cosine_maps=True), out)
    return document if horizon is None else document | {"horizon": horizon}


def _probe_rewards(out: Path, update: int) -> dict[str, Any]:
    from rollshape.probes.rewards import probe_rewards

    return _movable(probe_rewards(out, update, trust=True).to_dict(), out)


def _movable(document: dict[str, Any], out: Path) -> dict[str, Any]:
    """Remove the path of the run from a document: the study's folder may be moved."""
    del document["run_dir"]
    return document | {"command": document["command"].replace(shlex.quote(str(out)), "RUN_DIR")}


def can_collect_batches(spec: Spec) -> bool:
    """Return whether collecting batches is affordable: each of their environments first plays 1 to 2 episodes."""
    from rollshape.envs.registry import kind

    if kind(spec.env) == "functional":
        return True
    plan = spec.plan()
    episode = max_episode_steps(spec.env) or DEFAULT_EPISODE_STEPS
    steps = NUM_BATCHES * plan.num_envs * (1.5 * episode + plan.num_steps)
    return steps <= MAX_COST * spec.total_timesteps
