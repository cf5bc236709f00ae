"""A whole run: train, log, checkpoint, resume, score."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from rollshape.errors import RequestError, RunError
from rollshape.geometry.plan import Plan
from rollshape.training import checkpoint
from rollshape.training.driver import Driver, RunState
from rollshape.training.interrupt import Interrupt
from rollshape.training.loggers import Writers
from rollshape.training.metrics import Row, metrics_row
from rollshape.training.rundir import RunDirectory, fingerprint
from rollshape.training.setup import describe_network, new_driver, plan_run, use_compilation_cache
from rollshape.training.spec import Spec, checked_spec

INTERVALS, CHECKPOINTS = 100, 10  # per run, by default
NEWEST_CHECKPOINTS = 2  # that are kept
FINAL_EPISODES, EVAL_EPISODES = 128, 64  # of the final score, and of scores during training
OnRow = Callable[[Row, Plan], None]


@dataclass(frozen=True)
class Run:
    """A finished (or stopped) run: its directory, status, plan, summary and metrics."""

    path: Path
    status: str
    plan: Plan
    summary: dict[str, Any]
    metrics: list[Row]

    @property
    def final_return(self) -> float | None:
        value: float | None = self.summary["final_return"]
        return value


def train(
    spec: Spec | None = None,
    /,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    track: Sequence[str] = (),
    keep_checkpoints: int | None = None,
    network: Any = None,
    on_plan: Callable[[Plan], None] | None = None,
    on_row: OnRow | None = None,
    **changes: Any,
) -> Run:
    """Train by a Spec or by its fields: `train(env="CartPole-v1", num_envs=64, num_steps=32)`.

    Args:
        spec: the configuration; `changes` override its fields.
        out: the run directory, by default runs/ENV_ALGO_NxT_seedS.
        resume: continue a run that was killed, to the end that it would have had. A finished run is left as it is.
        track: further places for the metrics, "tensorboard" or "wandb".
        keep_checkpoints: number of evenly spaced checkpoints to keep (plus the initial one).
        network: an Equinox module, or a function (key, observation, action) → module. Called with observations
            [..., *shape] it returns (outputs for the action distribution [..., num_outputs], values [...]).
            PPO, PPO-EWMA, A2C and REINFORCE train it in place of the built-in network.
        on_plan: called with the plan before training starts.
        on_row: called with every row of metrics and the plan.
    """
    spec = checked_spec(replace(spec or Spec(), **changes))
    plan = plan_run(spec)
    if on_plan is not None:
        on_plan(plan)
    writers = Writers(track)
    use_compilation_cache()
    directory = RunDirectory(Path(out) if out is not None else _default_path(spec, plan, resume))
    earlier = _earlier_document(directory, spec, resume, keep_checkpoints)
    if earlier.get("status") == "done" and "summary" in earlier:
        return Run(directory.path, "done", plan, earlier["summary"], list(directory.rows()))
    keep = earlier.get("keep_checkpoints", keep_checkpoints)
    driver = new_driver(spec, plan, _log_every(spec, plan), network)
    kept = checkpoint.evenly_spaced(keep, plan.num_updates or 0, driver.interval) if keep is not None else []
    document = _new_document(driver, keep, earlier, describe_network(network))
    state = _restore(directory, document, driver, kept)
    started, first = time.perf_counter(), int(state.update)

    def report(row: Row, plan: Plan) -> None:
        writers.row(row)
        if on_row is not None:
            on_row(row, plan)

    try:
        with Interrupt() as stop, writers.opened(directory.path, spec.to_dict(), list(directory.rows())):
            driver.compile(state)
            compile_s = time.perf_counter() - started
            state, status, busy = _train_to_end(directory, driver, state, started, stop, kept, report)
    except RunError as error:
        with suppress(RunError):  # what ended the run may prevent this from being written, too
            directory.write({**directory.read(), "status": "failed", "error": error.to_dict()})
        raise
    finally:
        driver.close()
    speed = round((int(state.update) - first) * plan.rollout_size / busy) if busy else None
    return _finish(directory, driver, state, status, {"sps": speed, "compile_s": round(compile_s, 3)})


def _train_to_end(
    directory: RunDirectory,
    driver: Driver,
    state: RunState,
    started: float,
    stop: Interrupt,
    kept: Sequence[int],
    on_row: OnRow,
) -> tuple[RunState, str, float]:
    """Train interval by interval; return (state, status, seconds of computation)."""
    spec, plan, busy = driver.spec, driver.plan, 0.0
    last = plan.num_updates or 0
    every = spec.checkpoint_every or max(1, last // CHECKPOINTS)
    is_scoring = any(_reaches(row["episodic_return"], spec.eval_after) for row in directory.rows())
    is_solved = any(_reaches(row["eval_return"], spec.stop_at_return) for row in directory.rows())
    while (update := int(state.update)) < last and not is_solved:
        count = min(driver.interval, last - update)
        state, metrics, times = driver.advance(state, count)
        busy += sum(times)
        row = metrics_row(driver.algorithm, metrics, update, times, time.perf_counter() - started)
        row["success_rate"] = driver.success_rate()
        is_scoring = is_scoring or _reaches(row["episodic_return"], spec.eval_after)
        if is_scoring or _passes(spec.eval_every, update * plan.rollout_size, row["timesteps"]):
            row["eval_return"] = driver.score(state, spec.seed, EVAL_EPISODES).mean
        directory.append(row)
        if metrics.not_finite.any():
            raise _environment_not_finite(driver, row["timesteps"])
        driver.algorithm.check(state.learner, metrics.info, is_last=update + count == last)
        on_row(row, plan)
        if not _is_finite(driver, row, state):
            return state, "diverged", busy
        is_solved, reached = _reaches(row["eval_return"], spec.stop_at_return), update + count
        is_over = is_solved or reached == last
        if is_over or stop.is_requested or reached in kept or reached // every > update // every:
            checkpoint.save(directory.checkpoints, reached, state, driver.snapshot())
            checkpoint.prune(directory.checkpoints, NEWEST_CHECKPOINTS, kept)
        if stop.is_requested and not is_over:
            return state, "interrupted", busy
    if kept:
        checkpoint.prune(directory.checkpoints, 1, kept)
    return state, "done", busy


def _environment_not_finite(driver: Driver, timesteps: int) -> RunError:
    return RunError(
        "environment",
        f"{driver.spec.env} returned a reward or an observation that is not finite, in the interval that ends at "
        f"timestep {timesteps:,}.",
        "Fix the environment; the previous checkpoint is kept.",
    )


def _passes(every: int | None, before: int, now: int) -> bool:
    return every is not None and now // every > before // every


def _reaches(value: float | None, threshold: float | None) -> bool:
    return threshold is not None and value is not None and value >= threshold


def _log_every(spec: Spec, plan: Plan) -> int:
    """Return the updates per interval: about a hundred intervals; no longer than from one score to the next."""
    if spec.log_every is not None:
        return spec.log_every
    every = max(1, math.ceil((plan.num_updates or 1) / INTERVALS))
    return every if spec.eval_every is None else min(every, max(1, spec.eval_every // plan.rollout_size))


def _default_path(spec: Spec, plan: Plan, resume: bool) -> Path:
    """Return runs/CartPole-v1_ppo_64x32_seed0, with a number behind it where that exists."""
    name = (
        f"{spec.env.replace(':', '-').replace('/', '-')}_{spec.algo}_{plan.num_envs}x{plan.num_steps}_seed{spec.seed}"
    )
    base = Path("runs") / name
    if resume or not base.exists():
        return base
    return next(path for i in range(2, 10_000) if not (path := base.with_name(f"{name}-{i}")).exists())


def _earlier_document(
    directory: RunDirectory, spec: Spec, resume: bool, keep_checkpoints: int | None
) -> dict[str, Any]:
    """Return run.json of the run to resume, an empty document for a new run."""
    if not directory.exists():
        return {}
    if not resume:
        raise RequestError("run", f"{directory.path} already holds a run.", "Use --resume, or another --out.")
    if directory.spec() != spec:
        raise RequestError(
            "run", f"{directory.path} holds a run of another spec.", "Resume with the same flags, or use another --out."
        )
    document = directory.read()
    kept = document.get("keep_checkpoints")
    if keep_checkpoints not in (None, kept):
        raise RequestError(
            "run",
            f"{directory.path} was started with keep_checkpoints {kept}, not {keep_checkpoints}.",
            "Resume without --keep-checkpoints.",
        )
    return document


def _restore(directory: RunDirectory, document: dict[str, Any], driver: Driver, kept: Sequence[int]) -> RunState:
    """Return the state to continue from; cut the metrics there, and mark the run as running."""
    state, snapshot = driver.start(), None
    directory.create()
    last = checkpoint.latest(directory.checkpoints)
    if last is not None:
        state, snapshot = driver.place(checkpoint.load(last, state)), checkpoint.load_snapshot(last)
    if not driver.restore(snapshot):
        document["fresh_episodes_at"] = [*document["fresh_episodes_at"], int(state.update)]
    if directory.exists():
        directory.rewind(int(state.update))
    directory.write(document)
    if kept and last is None:
        checkpoint.save(directory.checkpoints, 0, state, driver.snapshot())
    return state


def _new_document(driver: Driver, keep: int | None, earlier: dict[str, Any], network: str | None) -> dict[str, Any]:
    """Return run.json of a run that starts or continues."""
    return {
        "spec": driver.spec.to_dict(),
        "plan": driver.plan.to_dict(),
        "layout": driver.layout.to_dict(),
        "network": network,
        "derived_settings": driver.algorithm.derived_settings(),
        "versions": fingerprint(),
        "status": "running",
        "keep_checkpoints": keep,
        "fresh_episodes_at": earlier.get("fresh_episodes_at", []),  # where a resume could not restore the environments
    }


def _finish(directory: RunDirectory, driver: Driver, state: RunState, status: str, speed: Row) -> Run:
    rows = list(directory.rows())
    score = driver.score(state, driver.spec.seed, FINAL_EPISODES) if status == "done" else None
    summary = {
        "run_dir": str(directory.path),
        "status": status,
        "timesteps": rows[-1]["timesteps"] if rows else 0,
        "final_return": score.mean if score else None,
        "final_return_ci": score.half_width if score else None,
        "final_episodes": score.episodes if score else 0,
        **speed,
    }
    directory.write({**directory.read(), "status": status, "summary": summary})
    return Run(directory.path, status, driver.plan, summary, rows)


def _is_finite(driver: Driver, row: Row, state: RunState) -> bool:
    """Return whether losses and parameters are numbers."""
    losses = row["gradient_steps"] == 0 or all(row[name] is not None for name in driver.algorithm.must_stay_finite)
    network = driver.algorithm.policy(state.learner).network
    return losses and all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(network))
