"""A whole run: train, log, checkpoint, resume, score."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np

from rollshape.algorithms.base import mean_of
from rollshape.checksums import Extent
from rollshape.envs.access import TIMEOUT, EnvAccess
from rollshape.envs.failures import EnvironmentAbandoned
from rollshape.envs.objects import env_id
from rollshape.errors import RollshapeError, RunError
from rollshape.files import output_directory
from rollshape.geometry.calls import check_arguments, check_names
from rollshape.geometry.fields import field_table
from rollshape.geometry.plan import Plan
from rollshape.geometry.values import BUDGET, POSITIVE
from rollshape.training import checkpoint
from rollshape.training.distributed import failing_together, in_any_process, is_first, scratch_directory
from rollshape.training.driver import Driver, RunState
from rollshape.training.evaluate import OnScore, Score
from rollshape.training.interrupt import Interrupt
from rollshape.training.loggers import Writers
from rollshape.training.metrics import Row, metrics_row
from rollshape.training.resume import earlier_document, is_done, new_document, restore
from rollshape.training.rundir import RunDirectory, default_path, free_path
from rollshape.training.scoring import EVAL_EPISODES, passes, reaches, score_final, score_state, summarize_score
from rollshape.training.setup import describe_network, log_interval, new_driver, plan_run, use_compilation_cache
from rollshape.training.spec import Spec, checked_spec

CHECKPOINTS = 10  # per run, by default
NEWEST_CHECKPOINTS = 2  # that are kept
OnRow = Callable[[Row, Plan], None]


@dataclass(frozen=True)
class TrainedRun:
    """A finished (or stopped) run: its directory, spec, status, plan, summary and metrics."""

    path: Path
    spec: Spec
    status: str
    plan: Plan
    summary: dict[str, Any]
    metrics: list[Row]
    signal: int | None = None  # that interrupted it

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def final_return(self) -> float | None:
        value: float | None = self.summary["final_return"]
        return value


@check_arguments
def train(
    spec: Spec | None = None,
    /,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    track: Sequence[str] = (),
    keep_checkpoints: int | None = None,
    network: Any = None,
    env_timeout: Annotated[float, POSITIVE] = TIMEOUT,
    isolate_env: bool = False,
    until: Annotated[int | None, BUDGET] = None,
    on_plan: Callable[[Plan], None] | None = None,
    on_row: OnRow | None = None,
    on_score: OnScore | None = None,
    on_note: Callable[[str], None] | None = None,
    env: Any = None,
    **changes: Any,
) -> TrainedRun:
    """Train by a Spec or by its fields: `train(env="CartPole-v1", num_envs=64, num_steps=32)`.

    Args:
        spec: the configuration; `changes` override its fields.
        env: an id, or the environment itself: a Gymnasium class, a function that creates an environment, an instance
            (of which N copies are made), or a functional environment.
        out: the run directory, by default runs/ENV_ALGO_NxT_seedS.
        resume: continue a run that was killed, to the end that it would have had. A finished run is left as it is.
        track: further places for the metrics, "tensorboard" or "wandb".
        keep_checkpoints: number of evenly spaced checkpoints to keep (plus the initial one).
        network: an Equinox module, or a function (key, observation, action) → module. Called with observations
            [..., *shape] it returns (outputs for the action distribution [..., num_outputs], values [...]).
            PPO, PPO-EWMA, A2C and REINFORCE train it in place of the built-in network.
        env_timeout: seconds that a call into a host environment may last before the run fails.
        isolate_env: run host environments in a process of their own, so that a crash there is only an error here.
        until: pause after so many timesteps, at the end of a logging interval; `resume` continues. What was trained by
            then is the beginning of the whole run, bit for bit, also of its learning rate schedule.
        on_plan: called with the plan before training starts.
        on_row: called with every row of metrics and the plan.
        on_score: called with the progress of a score in host environments, during and after training.
        on_note: called with what a resume had to work around, such as a damaged checkpoint; by default a warning.
        **changes: fields of `Spec`, which are the flags of `rollshape train`.
    """
    check_names("train", changes, field_table(Spec), train)
    if env is not None:
        changes["env"] = env_id(env)
    spec = checked_spec(spec, **changes)
    access = EnvAccess(env_timeout, isolate_env)
    plan = plan_run(spec, access)
    if on_plan is not None:
        on_plan(plan)
    use_compilation_cache()
    with ExitStack() as resources:
        if is_first():
            path = output_directory(out) if out is not None else free_path(default_path(spec, plan), resume)
            writers = Writers(track)
        else:
            path, resume, writers = resources.enter_context(scratch_directory()), False, Writers(())
        directory = RunDirectory(path)
        with failing_together():
            earlier = earlier_document(directory, spec, resume, keep_checkpoints)
        if in_any_process(is_done(earlier)):
            return _finished_run(directory, spec, plan, earlier)
        keep = earlier.get("keep_checkpoints", keep_checkpoints)
        driver = new_driver(spec, plan, log_interval(spec, plan), network, access)
        resources.callback(_close, driver)
        kept = checkpoint.evenly_spaced(keep, plan.num_updates or 0, driver.interval) if keep is not None else []
        with failing_together():
            resources.enter_context(directory.opened())
            earlier = earlier_document(directory, spec, resume, keep_checkpoints)
        if in_any_process(is_done(earlier)):  # by a process that ended just now
            return _finished_run(directory, spec, plan, earlier)
        with failing_together():
            document = new_document(driver, keep, earlier, describe_network(network))
            state, notes = restore(directory, document, driver)
        state = driver.share(state)
        if kept and int(state.update) == 0:
            _save_checkpoint(directory, driver, state)
        for note in notes:
            (on_note or _warn)(note)
        access.on_exit = partial(_record_failure, directory)  # a call that cannot be interrupted ends the process
        return _run(directory, driver, state, kept, writers, until, on_row, on_score)


def _close(driver: Driver) -> None:
    with suppress(RollshapeError):  # the first error is the one to report
        driver.close()


def _finished_run(directory: RunDirectory, spec: Spec, plan: Plan, document: dict[str, Any]) -> TrainedRun:
    summary = document.get("summary", {"final_return": None})  # without one in a process that is not the first
    return TrainedRun(
        directory.path, spec, "done", plan, summary, list(directory.rows()) if directory.path.exists() else []
    )


def _warn(note: str) -> None:
    warnings.warn(note, RuntimeWarning, stacklevel=4)


def _run(
    directory: RunDirectory,
    driver: Driver,
    state: RunState,
    kept: Sequence[int],
    writers: Writers,
    until: int | None,
    on_row: OnRow | None,
    on_score: OnScore | None,
) -> TrainedRun:
    """Train from a state to the end, and score; a failure is written to run.json."""
    started, first = time.perf_counter(), int(state.update)

    def report(row: Row, plan: Plan) -> None:
        writers.row(row)
        if on_row is not None:
            on_row(row, plan)

    try:
        past = list(directory.rows())
        with Interrupt(driver.hurry) as stop, writers.opened(directory.path, driver.spec.to_dict(), past):
            driver.compile()
            state, status, busy = _train_to_end(directory, driver, state, started, stop, kept, until, report, on_score)
        driver.close()
        updates = int(state.update) - first
        speed = round(updates * driver.plan.rollout_size / busy) if busy else None
        score = score_final(driver, state, on_score) if status == "done" else None
        return _finish(directory, driver, status, stop, score, {"sps": speed, "compile_s": round(driver.compile_s, 3)})
    except RollshapeError as error:
        _record_failure(directory, error)
        raise


def _record_failure(directory: RunDirectory, error: RollshapeError) -> None:
    """Write how the run ended, unless what ended it prevents that, too."""
    status = "interrupted" if isinstance(error, EnvironmentAbandoned) else "failed"
    with suppress(RollshapeError):
        directory.end(status, error=error.to_dict())


def _train_to_end(
    directory: RunDirectory,
    driver: Driver,
    state: RunState,
    started: float,
    stop: Interrupt,
    kept: Sequence[int],
    until: int | None,
    on_row: OnRow,
    on_score: OnScore | None,
) -> tuple[RunState, str, float]:
    """Train interval by interval; return (state, status, seconds of computation)."""
    spec, plan, busy = driver.spec, driver.plan, 0.0
    last = plan.num_updates or 0
    pause = last if until is None else min(last, plan.updates_until(until))
    every = spec.checkpoint_every or max(1, last // CHECKPOINTS)
    is_scoring = in_any_process(any(reaches(row["episodic_return"], spec.eval_after) for row in directory.rows()))
    is_solved = in_any_process(any(reaches(row["eval_return"], spec.stop_at_return) for row in directory.rows()))
    while (update := int(state.update)) < pause and not is_solved:
        count = min(driver.interval, last - update)
        state, metrics, times = driver.advance(state, count)
        busy += sum(times)
        row = metrics_row(driver.algorithm, metrics, update, times, time.perf_counter() - started)
        row["success_rate"] = driver.success_rate()
        is_scoring = is_scoring or reaches(row["episodic_return"], spec.eval_after)
        if is_scoring or passes(spec.eval_every, update * plan.rollout_size, row["timesteps"]):
            score = score_state(driver, state, EVAL_EPISODES, on_score)
            row |= {"eval_return": score.mean, "eval_return_ci": mean_of(score.half_width)}
        directory.append(row)
        if metrics.not_finite.any():
            raise _environment_not_finite(driver, row["timesteps"])
        driver.algorithm.check(state.learner, metrics.info, is_last=update + count == last)
        on_row(row, plan)
        if not _is_finite(driver, row, state):
            return state, "diverged", busy
        is_solved, reached = reaches(row["eval_return"], spec.stop_at_return), update + count
        is_over, is_stopped = is_solved or reached >= pause, in_any_process(stop.is_requested)
        if is_over or is_stopped or reached in kept or reached // every > update // every:
            _save_checkpoint(directory, driver, state, directory.metrics.sync())
            checkpoint.prune(directory.checkpoints, NEWEST_CHECKPOINTS, kept)
        if is_stopped and not is_over:
            return state, "interrupted", busy
    if int(state.update) < last and not is_solved:
        return state, "paused", busy
    if kept:
        checkpoint.prune(directory.checkpoints, 1, kept)
    return state, "done", busy


def _save_checkpoint(
    directory: RunDirectory, driver: Driver, state: RunState, metrics: Extent = checkpoint.NO_METRICS
) -> None:
    """Save the state. What is fetched must not outlive this: while it does, the next update copies the state."""
    fetched = driver.parallel.fetch(state)
    checkpoint.save(directory.checkpoints, int(state.update), fetched, driver.snapshot(), metrics)


def _environment_not_finite(driver: Driver, timesteps: int) -> RunError:
    return RunError(
        "environment",
        f"{driver.spec.env} returned a reward or an observation that is not finite, in the interval that ends at "
        f"timestep {timesteps:,}.",
        "Fix the environment; the previous checkpoint is kept.",
    )


def _finish(
    directory: RunDirectory, driver: Driver, status: str, stop: Interrupt, score: Score | None, speed: Row
) -> TrainedRun:
    rows = list(directory.rows())
    summary = {
        "run_dir": str(directory.path),
        "status": status,
        "timesteps": rows[-1]["timesteps"] if rows else 0,
        **summarize_score(score),
        **speed,
        "notes": directory.read()["notes"],
    }
    directory.end(status, summary=summary)
    return TrainedRun(directory.path, driver.spec, status, driver.plan, summary, rows, stop.signal)


def _is_finite(driver: Driver, row: Row, state: RunState) -> bool:
    """Return whether losses and parameters are numbers."""
    losses = row["gradient_steps"] == 0 or all(row[name] is not None for name in driver.algorithm.must_stay_finite)
    network = driver.algorithm.policy(state.learner).network
    return losses and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(network))
