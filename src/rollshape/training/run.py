"""A whole run: train, log, checkpoint, resume, score."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rollshape.envs.episodic import EpisodicEnv, EpisodicHost
from rollshape.envs.inspect import functional_facts, host_facts
from rollshape.envs.registry import kind, make, make_host
from rollshape.errors import RequestError, RunError
from rollshape.geometry.plan import Plan
from rollshape.training import checkpoint
from rollshape.training.functional_trainer import FunctionalTrainer
from rollshape.training.host_trainer import HostTrainer
from rollshape.training.interrupt import Interrupt
from rollshape.training.loggers import Writers
from rollshape.training.loop import Metrics, RunState, Times, Trainer
from rollshape.training.monitor import Signals
from rollshape.training.rrd_trainer import FunctionalReplayTrainer, HostReplayTrainer
from rollshape.training.rundir import RunDirectory, fingerprint
from rollshape.training.shards import reserve_devices
from rollshape.training.spec import Spec, checked_spec

INTERVALS, CHECKPOINTS, KEPT = 100, 10, 2
FINAL_EPISODES, EVAL_EPISODES = 128, 64  # of the final score, and of those on the way
Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A finished (or stopped) run: where it is, what became of it, and its metrics."""

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
    on_row: Callable[[Row, Plan], None] | None = None,
    **changes: Any,
) -> Run:
    """Train by a Spec or by its fields: `train(env="CartPole-v1", num_envs=64, num_steps=32)`.

    Leaves a run directory. With `resume` a run that was killed goes on to the end that it would have had; one that is
    done is left as it is. `track` names further places for the metrics. `keep_checkpoints` keeps so many, evenly
    spread and the last among them, and that of the untrained policy (see `checkpoint.spread`).
    """
    spec = checked_spec(replace(spec or Spec(), **changes))
    plan = planned(spec)
    writers = Writers(track)
    use_compilation_cache()
    directory = RunDirectory(Path(out) if out is not None else _free_path(spec, plan, resume))
    before = _earlier(directory, spec, resume, keep_checkpoints)
    if before.get("status") == "done" and "summary" in before:
        return Run(directory.path, "done", plan, before["summary"], list(directory.rows()))
    keep = before.get("keep_checkpoints", keep_checkpoints)
    trainer = trainer_for(spec, plan, _log_every(spec, plan))
    kept = checkpoint.spread(keep, plan.num_updates or 0, trainer.interval) if keep is not None else []
    document = _document(trainer, keep, before)
    state = _begin(directory, document, trainer, kept)
    started, first = time.perf_counter(), int(state.update)

    def report(row: Row, plan: Plan) -> None:
        writers.row(row)
        if on_row is not None:
            on_row(row, plan)

    try:
        with Interrupt() as stop, writers.opened(directory.path, spec.to_dict(), list(directory.rows())):
            trainer.compile(state)
            compile_s = time.perf_counter() - started
            state, status, busy = _train_on(directory, trainer, state, started, stop, kept, report)
    except RunError as error:
        with suppress(RunError):  # what ended the run may keep this from being written, too
            directory.write({**directory.read(), "status": "failed", "error": error.to_dict()})
        raise
    finally:
        trainer.close()
    speed = round((int(state.update) - first) * plan.rollout_size / busy) if busy else None
    return _end(directory, spec, trainer, state, status, {"sps": speed, "compile_s": round(compile_s, 3)})


def planned(spec: Spec) -> Plan:
    """The plan of a spec, with what its environment weighs."""
    options = spec.env_kwargs or {}
    reserve_devices()
    if kind(spec.env) == "host":
        return spec.plan(**host_facts(spec.env, **options))
    return spec.plan(**functional_facts(make(spec.env, **options)))


def trainer_for(spec: Spec, plan: Plan, interval: int = 1) -> Trainer:
    """What trains the spec: by the kind of its environment, and by whether it draws from a replay."""
    options, from_replay = spec.env_kwargs or {}, plan.replay is not None
    episodic = spec.episodic_reward or spec.algo == "rrd"
    if kind(spec.env) == "host":
        pool = make_host(spec.env, plan.num_envs, **options)
        host = HostReplayTrainer if from_replay else HostTrainer
        return host(spec, plan, EpisodicHost(pool) if episodic else pool, interval)
    env = make(spec.env, **options)
    functional = FunctionalReplayTrainer if from_replay else FunctionalTrainer
    return functional(spec, plan, EpisodicEnv(env) if episodic else env, interval)


def _train_on(
    directory: RunDirectory,
    trainer: Trainer,
    state: RunState,
    started: float,
    stop: Interrupt,
    kept: Sequence[int],
    on_row: Callable[[Row, Plan], None],
) -> tuple[RunState, str, float]:
    """Interval by interval to the end: (state, status, seconds of computation)."""
    spec, plan, busy = trainer.spec, trainer.plan, 0.0
    last = plan.num_updates or 0
    every = spec.checkpoint_every or max(1, last // CHECKPOINTS)
    scoring = any(_crossed(spec.eval_after, row["episodic_return"]) for row in directory.rows())
    enough = any(_crossed(spec.stop_at_return, row["eval_return"]) for row in directory.rows())
    while (update := int(state.update)) < last and not enough:
        count = min(trainer.interval, last - update)
        state, metrics, times = trainer.advance(state, count)
        busy += sum(times)
        row = _row(plan, metrics, update, times, time.perf_counter() - started)
        row["success_rate"] = trainer.success_rate()
        scoring = scoring or _crossed(spec.eval_after, row["episodic_return"])
        if scoring or _passed(spec.eval_every, update * plan.rollout_size, row["timesteps"]):
            row["eval_return"] = trainer.score(state, spec.seed, EVAL_EPISODES).mean
        directory.append(row)
        if metrics.unsound.any():
            raise _unsound(trainer, row["timesteps"])
        trainer.check(state, metrics)
        on_row(row, plan)
        if not _finite(trainer, row, state):
            return state, "diverged", busy
        enough, reached = _crossed(spec.stop_at_return, row["eval_return"]), update + count
        ended = enough or reached == last
        if ended or stop.asked or reached in kept or reached // every > update // every:
            checkpoint.save(directory.checkpoints, reached, state, trainer.snapshot())
            checkpoint.prune(directory.checkpoints, KEPT, kept)
        if stop.asked and not ended:
            return state, "interrupted", busy
    if kept:
        checkpoint.prune(directory.checkpoints, 1, kept)
    return state, "done", busy


def open_run(path: Path, update: int | None = None) -> tuple[Trainer, RunState]:
    """A run's trainer and its state after an update (the latest that is kept), to score or measure it."""
    directory = RunDirectory(path)
    spec = directory.spec()
    stored = checkpoint.find(directory.checkpoints, update)
    reserve_devices()
    trainer = trainer_for(spec, planned(spec))
    return trainer, checkpoint.load(stored, trainer.start())


def _unsound(trainer: Trainer, timesteps: int) -> RunError:
    return RunError(
        "environment",
        f"{trainer.spec.env} gave a reward or an observation that is not finite, in the interval that ends at timestep "
        f"{timesteps:,}.",
        "Mend the environment; the checkpoint before that is kept.",
    )


def _passed(every: int | None, before: int, now: int) -> bool:
    return every is not None and now // every > before // every


def _crossed(threshold: float | None, value: float | None) -> bool:
    return threshold is not None and value is not None and value >= threshold


def use_compilation_cache() -> None:
    """Compiled programs are kept, so that the next run of the same shape starts at once."""
    config: Any = jax.config
    if config.jax_compilation_cache_dir is None:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        config.update("jax_compilation_cache_dir", str(home / "rollshape" / "xla"))
        config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _log_every(spec: Spec, plan: Plan) -> int:
    """About a hundred intervals; no longer than from one score to the next."""
    if spec.log_every is not None:
        return spec.log_every
    every = max(1, math.ceil((plan.num_updates or 1) / INTERVALS))
    return every if spec.eval_every is None else min(every, max(1, spec.eval_every // plan.rollout_size))


def _free_path(spec: Spec, plan: Plan, resume: bool) -> Path:
    """runs/CartPole-v1_ppo_64x32_seed0, with a number behind it where that is taken."""
    name = (
        f"{spec.env.replace(':', '-').replace('/', '-')}_{spec.algo}_{plan.num_envs}x{plan.num_steps}_seed{spec.seed}"
    )
    base = Path("runs") / name
    if resume or not base.exists():
        return base
    return next(path for i in range(2, 10_000) if not (path := base.with_name(f"{name}-{i}")).exists())


def _earlier(directory: RunDirectory, spec: Spec, resume: bool, keep_checkpoints: int | None) -> dict[str, Any]:
    """run.json of the run that is to go on, empty for a new one."""
    if not directory.exists():
        return {}
    if not resume:
        raise RequestError("run", f"{directory.path} holds a run already.", "Use --resume, or another --out.")
    if directory.spec() != spec:
        raise RequestError(
            "run", f"{directory.path} holds a run of another spec.", "Resume with the same flags, or another --out."
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


def _begin(directory: RunDirectory, document: dict[str, Any], trainer: Trainer, kept: Sequence[int]) -> RunState:
    """The state to go on from; metrics end there, and run.json says that it is running."""
    directory.claim()
    state, snapshot = trainer.start(), None
    last = checkpoint.latest(directory.checkpoints)
    if last is not None:
        state, snapshot = trainer.placed(checkpoint.load(last, state)), checkpoint.load_snapshot(last)
    if not trainer.restore(snapshot):
        document["fresh_episodes_at"] = [*document["fresh_episodes_at"], int(state.update)]
    if directory.exists():
        directory.rewind(int(state.update))
    directory.write(document)
    if kept and last is None:
        checkpoint.save(directory.checkpoints, 0, state, trainer.snapshot())
    return state


def _document(trainer: Trainer, keep: int | None, before: dict[str, Any]) -> dict[str, Any]:
    """run.json of a run that begins or goes on."""
    return {
        "spec": trainer.spec.to_dict(),
        "plan": trainer.plan.to_dict(),
        "layout": trainer.layout.to_dict(),
        "versions": fingerprint(),
        "status": "running",
        "keep_checkpoints": keep,
        "fresh_episodes_at": before.get("fresh_episodes_at", []),  # where a resume could not replay the environments
    }


def _end(directory: RunDirectory, spec: Spec, trainer: Trainer, state: RunState, status: str, speed: Row) -> Run:
    rows = list(directory.rows())
    score = trainer.score(state, spec.seed, FINAL_EPISODES) if status == "done" else None
    timesteps = rows[-1]["timesteps"] if rows else 0
    summary = {
        "run_dir": str(directory.path),
        "status": status,
        "timesteps": timesteps,
        "final_return": score.mean if score else None,
        "final_return_ci": score.half_width if score else None,
        "final_episodes": score.episodes if score else 0,
        **speed,
    }
    directory.write({**directory.read(), "status": status, "summary": summary})
    return Run(directory.path, status, trainer.plan, summary, rows)


def _finite(trainer: Trainer, row: Row, state: RunState) -> bool:
    losses = row["gradient_steps"] == 0 or all(row[name] is not None for name in trainer.losses)
    return losses and all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(state.learner.model))


def _row(plan: Plan, metrics: Metrics, update: int, times: Times, wall: float) -> Row:
    """One interval's metrics; a value that does not exist is null, never NaN."""
    seen: Metrics = jax.tree.map(lambda part: np.asarray(part, np.float64), metrics)
    count, replay = len(seen.episodes), seen.replay
    finished = seen.episodes.sum()
    learned = np.ones(count, bool) if replay is None else replay.gradient_steps > 0
    means = {
        name: _number(getattr(seen, name)[learned].mean()) if learned.any() else None
        for name in ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "ratio_ess", "grad_norm")
    }
    from_replay = {
        name: None if replay is None or not learned.any() else _number(getattr(replay, name)[learned].mean())
        for name in ("q_loss", "temperature", "reward_loss", "reward_correlation")
    }
    explained = seen.explained_variance[np.isfinite(seen.explained_variance)]
    return {
        "update": update + count,
        "timesteps": (update + count) * plan.rollout_size,
        "wall_time": round(wall, 4),
        "episodic_return": _number(seen.return_sum.sum() / finished) if finished else None,
        "episodic_length": _number(seen.length_sum.sum() / finished) if finished else None,
        **means,
        "reset_phase_entropy": _number(seen.reset_phase_entropy.mean()),
        **from_replay,
        "gradient_steps": int(
            count * plan.gradient_steps_per_update if replay is None else replay.gradient_steps.sum()
        ),
        "approx_kl_epochs": [_number(value) for value in seen.approx_kl.mean(0)],
        "ratio_ess_epochs": [_number(value) for value in seen.ratio_ess.mean(0)],
        "explained_variance": _number(explained.mean()) if explained.size else None,
        "learning_rate": _number(seen.learning_rate[-1]),
        **{name: _number(getattr(seen, name)[-1]) for name in Signals._fields},
        "eval_return": None,
        "success_rate": None,
        "rollout_s": round(times.rollout, 6),
        "update_s": round(times.update, 6),
        "sps": round(count * plan.rollout_size / sum(times)),
    }


def _number(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
