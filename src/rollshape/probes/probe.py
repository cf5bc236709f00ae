"""`probe`: gradient statistics of a run, and predictions for every other split of its rollout size."""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, overload

from rollshape.errors import RequestError
from rollshape.geometry.calls import check_arguments, check_names
from rollshape.geometry.divisors import divisors
from rollshape.geometry.fields import field_table
from rollshape.probes.collect import Source, estimate_advantages, open_source
from rollshape.probes.context import OnProgress, ProbeContext, draw_key, tail_steps, window_lengths
from rollshape.probes.measure import measure_rows, policy_view
from rollshape.probes.quantities import MEASURED_FIRST, QUANTITIES
from rollshape.probes.quantities.horizon import Direction, Horizon, given_horizon, measure_horizon, new_direction
from rollshape.probes.request import ProbeRequest, check_request
from rollshape.probes.result import Geometry, Probe
from rollshape.probes.subject import Checkpoint, ProbedRun, RunOrPath, learns_from_replay

DIRECTION_STEPS, DIRECTION_ENVS = 512, 128  # at most, to measure the gradient's direction at every checkpoint


@overload
def probe(
    run: RunOrPath,
    checkpoint: Literal["all"],
    *,
    on_progress: OnProgress = ...,
    trust: bool = ...,
    env: Any = ...,
    **options: Any,
) -> list[Probe]: ...
@overload
def probe(
    run: RunOrPath,
    checkpoint: int | Literal["latest"] = "latest",
    *,
    on_progress: OnProgress = ...,
    trust: bool = ...,
    env: Any = ...,
    **options: Any,
) -> Probe: ...
@check_arguments
def probe(
    run: RunOrPath,
    checkpoint: int | Literal["latest", "all"] = "latest",
    *,
    on_progress: OnProgress = lambda _: None,
    trust: bool = False,
    env: Any = None,
    **options: Any,
) -> Probe | list[Probe]:
    """Measure a run at one of its checkpoints, or at all of them.

    Args:
        run: a run or its directory.
        checkpoint: the update after which to measure, "latest" or "all".
        on_progress: called with a short description of every step of the work.
        trust: open a run whose environment is in a module that is not installed, which executes the module.
        env: the run's environment, if it was given to `train` as an object that is not in a module.
        **options: fields of `ProbeRequest`.
    """
    check_names("probe", options, field_table(ProbeRequest), probe)
    with ProbedRun(run, trust=trust, env=env) as probed:
        updates = _select_updates(probed, checkpoint)
        request = check_request(options, probed.plan.rollout_size, probed.spec.seed)
        horizon = _measure_horizon(probed, request, on_progress)
        probes = [_probe_checkpoint(probed, update, request, horizon, on_progress) for update in updates]
    return probes if checkpoint == "all" else probes[0]


def _select_updates(run: ProbedRun, checkpoint: int | Literal["latest", "all"]) -> list[int]:
    """Return the updates to measure, or raise a RequestError where the run cannot be measured."""
    update = checkpoint if isinstance(checkpoint, int) else None
    last = run.find_update(update)
    if run.has_diverged and update is None:
        raise RequestError(
            "run",
            f"{run.path} diverged: its losses or parameters are not finite. Its last checkpoint is of update {last}.",
            f"Use --checkpoint {last} to measure it before that.",
        )
    if learns_from_replay(run.spec):
        raise RequestError(
            "run",
            f"{run.path} is a run of {run.spec.algo}, which uses a replay: it has no rollout of N × T to measure.",
            "Probe PPO, A2C or REINFORCE; for the reward network of rrd use rollshape.probe_rewards.",
        )
    return run.updates if checkpoint == "all" else [last]


def _measure_horizon(run: ProbedRun, request: ProbeRequest, on_progress: OnProgress) -> Horizon:
    """Return h as requested, or measured over all stored checkpoints."""
    if request.horizon is not None:
        return given_horizon(request.horizon)
    directions = []
    for update in run.updates if len(run.updates) > 1 else []:
        on_progress(f"direction of the gradient after update {update}")
        directions.append(_measure_direction(run.checkpoint(update), request))
    return measure_horizon(directions, run.updates)


def _measure_direction(checkpoint: Checkpoint, request: ProbeRequest) -> Direction:
    """Return the reference gradient at a checkpoint."""
    envs = None if request.start == "run" else min(DIRECTION_ENVS, request.num_envs or DIRECTION_ENVS)
    source = open_source(checkpoint, envs, request.start)
    try:
        lengths = window_lengths(checkpoint, request.rollout_size or 0, source.num_envs)
        key = draw_key(request.seed or 0, checkpoint.update, "direction")
        stream = source.draw(min(DIRECTION_STEPS, max(lengths)), tail_steps(checkpoint), key)
        advantage = estimate_advantages(checkpoint.estimator, stream, lam=1.0)[0]
        return new_direction(checkpoint.update, measure_rows(policy_view(source.policy), stream, advantage))
    finally:
        source.close()


def _probe_checkpoint(
    run: ProbedRun, update: int, request: ProbeRequest, horizon: Horizon, on_progress: OnProgress
) -> Probe:
    """Measure all quantities of one checkpoint."""
    checkpoint = run.checkpoint(update)
    source = open_source(checkpoint, request.num_envs, request.start)
    try:
        context = ProbeContext(checkpoint, source, request, horizon, on_progress)
        ordered = [*MEASURED_FIRST, *(quantity for quantity in QUANTITIES if quantity not in MEASURED_FIRST)]
        results: dict[str, Any] = {
            quantity.name: quantity.measure(context)
            if quantity.part is None or request.includes(quantity.part)
            else None
            for quantity in ordered
        }
        return Probe(
            run_dir=str(run.path),
            update=update,
            timesteps=update * run.plan.rollout_size,
            command=_command(run.path, update, request),
            geometry=_geometry(context, source),
            **results,
        )
    finally:
        source.close()


def _geometry(context: ProbeContext, source: Source) -> Geometry:
    checkpoint, request, lengths = context.checkpoint, context.request, context.lengths
    spec, plan, tail = checkpoint.spec, checkpoint.plan, tail_steps(checkpoint)
    centered = ", minus their mean (a constant)" if checkpoint.estimator.centers_advantages else ""
    return Geometry(
        num_envs=plan.num_envs,
        num_steps=plan.num_steps,
        minibatch_size=plan.minibatch_size,
        rollout_size=context.rollout_size,
        probe_envs=source.num_envs,
        probe_steps=max(lengths),
        tail_steps=tail,
        num_batches=request.num_batches,
        start=request.start,
        burn_in=source.burn_in,
        seed=context.seed,
        algo=spec.algo,
        gamma=spec.gamma,
        gae_lambda=spec.gae_lambda,
        advantages=f"not normalized{centered}",
        reference=f"λ = 1, {tail} steps beyond the window, where the weight of the critic is {spec.gamma**tail:.2g}",
        left_out=tuple(t for t in divisors(context.rollout_size) if t > max(lengths)),
    )


def _command(path: Path, update: int, request: ProbeRequest) -> str:
    """Return the command that repeats the probe."""
    options = [(field.name, getattr(request, field.name)) for field in fields(ProbeRequest)]
    flags = [f"--{name.replace('_', '-')} {value}" for name, value in options if value is not None]
    return f"rollshape probe {shlex.quote(str(path))} --checkpoint {update} {' '.join(flags)}"
