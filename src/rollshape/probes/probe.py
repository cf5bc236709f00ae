"""`probe`: what a batch of a run's shape is worth, and what every other split of the same size would give."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, cast, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.errors import RequestError, RunError
from rollshape.formatting import format_bytes
from rollshape.geometry.divisors import divisors
from rollshape.gradients.bias import bias
from rollshape.gradients.noise_scale import NoiseScales, noise_scales
from rollshape.gradients.surface import surface, surfaces
from rollshape.gradients.variance import collected_variance, variance
from rollshape.probes import measure
from rollshape.probes.ask import Ask, checked
from rollshape.probes.batches import collect_batches, measured_cosines, minibatch_table, pictures
from rollshape.probes.collect import Source, Stream, estimates, source
from rollshape.probes.critic import TargetPoint, target_points
from rollshape.probes.horizon import Direction, Horizon, direction, given_horizon, measured_horizon
from rollshape.probes.noises import STATES, step_noises
from rollshape.probes.reset_phase import reset_phase
from rollshape.probes.result import Geometry, Probe
from rollshape.training import checkpoint as checkpoints
from rollshape.training.loop import RunState, Trainer
from rollshape.training.run import Run, open_run, use_compilation_cache
from rollshape.training.rundir import RunDirectory
from rollshape.training.streams import stream_key

LONGEST = 1024  # steps of the windows that are looked at, unless the run's own are longer
OBSERVATION_BYTES, MOST_BYTES = 1 << 30, 1 << 32  # of a probe's observations: aimed at, and at most
DIRECTION, DIRECTION_ENVS = 512, 128  # steps and environments that tell the direction at one of many checkpoints
CRITIC_WEIGHT = 0.01  # what the reference leaves to the critic: γ to the power of its tail
SIZES = (0.25, 0.5, 2, 4)  # of the rollout_size, whose surfaces are given beside its own
DRAWS = {"long": 0, "batches": 1, "pictures": 2, "direction": 3}  # independent of each other

Told = Callable[[str], None]


@overload
def probe(run: Run | str | Path, checkpoint: Literal["all"], *, told: Told = ..., **asked: Any) -> list[Probe]: ...
@overload
def probe(
    run: Run | str | Path, checkpoint: int | Literal["latest"] = "latest", *, told: Told = ..., **asked: Any
) -> Probe: ...
def probe(
    run: Run | str | Path,
    checkpoint: int | Literal["latest", "all"] = "latest",
    *,
    told: Told = lambda _: None,
    **asked: Any,
) -> Probe | list[Probe]:
    """Measure a run at a checkpoint, or at all that it has kept. What can be `asked` are the fields of `Ask`.

    `told` hears what is being done, one step of the work after the other.
    """
    path = run.path if isinstance(run, Run) else Path(run)
    use_compilation_cache()
    with _Opened(path, checkpoint, told) as opened:
        ask = checked(Ask(**asked), opened.trainer.plan.rollout_size, opened.trainer.spec.seed)
        horizon = opened.horizon(ask)
        found = [opened.measured(update, ask, horizon) for update in opened.updates]
    return found if checkpoint == "all" else found[0]


class _Opened:
    """A run whose checkpoints are measured, one trainer for all of them."""

    def __init__(self, path: Path, checkpoint: int | Literal["latest", "all"], told: Told) -> None:
        self.path, self.told = path, told
        folder = RunDirectory(path).checkpoints
        document = RunDirectory(path).read()
        asked = checkpoint if isinstance(checkpoint, int) else None
        last = checkpoints.update_of(checkpoints.find(folder, asked))
        if document["status"] == "diverged" and asked is None:
            raise RequestError(
                "run",
                f"{path} diverged: its losses or parameters are not numbers. Its last checkpoint is of update {last}.",
                f"Use --checkpoint {last} to measure it before that.",
            )
        self.kept = [checkpoints.update_of(each) for each in checkpoints.stored(folder)]
        self.updates = self.kept if checkpoint == "all" else [last]
        if (algo := RunDirectory(path).spec().algo) in ("sac", "rrd"):
            raise RequestError(
                "run",
                f"{path} is a run of {algo}, which draws from a replay: it has no rollout of N × T to measure.",
                "Probe PPO, A2C or REINFORCE; the reward network of rrd has rollshape.probe_rewards.",
            )
        self.trainer, _ = open_run(path, last)

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.trainer.close()

    def state(self, update: int) -> RunState:
        stored = checkpoints.find(RunDirectory(self.path).checkpoints, update)
        state: RunState = checkpoints.load(stored, self.trainer.start())
        if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(state.learner.model)):
            raise RequestError(
                "checkpoint",
                f"The parameters after update {update} are not finite.",
                f"Choose another --checkpoint of {', '.join(map(str, self.kept))}.",
            )
        return state

    def horizon(self, ask: Ask) -> Horizon:
        """h: as given, or measured over all checkpoints that were kept."""
        if ask.horizon is not None:
            return given_horizon(ask.horizon)
        directions = []
        for update in self.kept if len(self.kept) > 1 else []:
            self.told(f"direction of the gradient after update {update}")
            directions.append(self._direction(update, ask))
        return measured_horizon(directions, self.kept)

    def _direction(self, update: int, ask: Ask) -> Direction:
        """The reference gradient at a checkpoint."""
        envs = None if ask.start == "run" else min(DIRECTION_ENVS, ask.num_envs or DIRECTION_ENVS)
        drawn = source(self.trainer, self.state(update), envs, ask.start)
        try:
            steps = min(DIRECTION, max(window_lengths(self.trainer, ask, drawn.num_envs)))
            stream = drawn.draw(steps, tail_steps(self.trainer), _key(ask, update, "direction"))
            view = measure.policy_view(drawn.model, drawn.policy)
            return direction(update, measure.measure_rows(view, stream, estimates(drawn.spec, stream, lam=1.0)[0]))
        finally:
            drawn.close()

    def measured(self, update: int, ask: Ask, horizon: Horizon) -> Probe:
        drawn = source(self.trainer, self.state(update), ask.num_envs, ask.start)
        try:
            return _measured(self.path, update, self.trainer, self.state(update), drawn, ask, horizon, self.told)
        finally:
            drawn.close()


def _measured(
    path: Path, update: int, trainer: Trainer, state: RunState, drawn: Source, ask: Ask, horizon: Horizon, told: Told
) -> Probe:
    """All measurements of one checkpoint, one after the other."""
    spec, plan, rng = trainer.spec, trainer.plan, np.random.default_rng([ask.seed or 0, update])
    envs, steps, size, has = plan.num_envs, plan.num_steps, cast(int, ask.rollout_size), ask.has
    view, updates = measure.policy_view(drawn.model, drawn.policy), horizon.value or 1.0
    told(f"long rollout after update {update}")
    lengths = window_lengths(trainer, ask, drawn.num_envs)
    stream = drawn.draw(max(lengths), tail_steps(trainer), _key(ask, update, "long"))
    told(f"policy: windows of {lengths[0]} to {lengths[-1]} steps")
    weights = measure.advantages(spec, stream, lengths)
    windows = measure.measure_windows(view, stream, weights)
    own = windows[lengths.index(steps)]
    seen = int((own.window_norms > 0).sum())
    if seen < 2:
        raise RunError(
            "run",
            f"After update {update} the gradient is zero in all but {seen} of {drawn.num_envs} environments.",
            "Probe a later checkpoint, or use more --num-envs.",
        )
    told("lags")
    lags = measure.measure_lags(view, stream, weights[lengths.index(steps)])
    found = variance(lags, own.row_gram, rng, num_envs=envs)
    critic, value_scales = (
        _critic(drawn, stream, lengths, size, steps, envs, rng, told) if has("critic") else ([], None)
    )
    table, cosine, collected = [], None, None
    if has("batches"):
        batches = collect_batches(
            drawn, view, envs, steps, ask.num_batches, _key(ask, update, "batches"),
            lambda i, n: told(f"batches {i}/{n}"),
        )  # fmt: skip
        told("minibatches")
        table = minibatch_table(view, batches, found, plan.minibatch_size, rng)
        cosine, collected = measured_cosines(batches, found, own.references), collected_variance(batches.gradients)
    split = phases = None
    if has("noises"):
        told("three noises")
        split = step_noises(trainer, state, num_states=STATES, seed=ask.seed or 0)
    if has("phases"):
        told("phases after a common reset")
        phases = reset_phase(trainer, state, seed=ask.seed or 0)
    told("intervals")
    points = surfaces([size, *(_other_sizes(size) if has("sizes") else ())], windows, rng, updates)
    return Probe(
        run_dir=str(path),
        update=update,
        timesteps=update * plan.rollout_size,
        command=_command(path, update, ask),
        geometry=_geometry(trainer, drawn, ask, lengths),
        variance=found,
        noise_scale=noise_scales(lags[:, 0], own.row_gram, steps, rng, window_norms=own.window_norms, num_envs=envs),
        value_noise_scale=value_scales,
        minibatch=table,
        collected=collected,
        cosine=cosine,
        bias={
            "window": bias(own.window_bias_gram, own.references.gram, rng),
            "estimator": bias(own.references.estimator_gram, own.references.gram, rng),
            "total": bias(own.bias_gram, own.references.gram, rng),
        },
        horizon=horizon,
        surface=points.pop(size),
        sizes=points,
        critic=critic,
        pictures=pictures(drawn, view, _key(ask, update, "pictures")) if has("pictures") else [],
        noises=split,
        reset_phase=phases,
    )


def _critic(
    drawn: Source, stream: Stream, lengths: list[int], size: int, steps: int, envs: int, rng: np.random.Generator,
    told: Told,
) -> tuple[list[TargetPoint], NoiseScales | None]:  # fmt: skip
    """Targets and gradients of the critic, where something trains one."""
    spec = drawn.spec
    if spec.algo == "reinforce" and spec.baseline != "value":
        return [], None
    view = measure.critic_view(drawn.model)
    told(f"critic: windows of {lengths[0]} to {lengths[-1]} steps")
    weights = measure.errors(spec, stream, lengths)
    windows = measure.measure_windows(view, stream, weights)
    own = windows[lengths.index(steps)]
    norms = measure.measure_step_norms(view, stream, weights[lengths.index(steps)])
    scales = noise_scales(norms, own.row_gram, steps, rng, window_norms=own.window_norms, num_envs=envs)
    return target_points(spec, stream, surface(size, windows, rng), rng), scales


def window_lengths(trainer: Trainer, ask: Ask, envs: int) -> list[int]:
    """All T that divide the rollout_size and fit the probe, and the run's own."""
    observation = trainer.env.observation
    step_bytes = envs * math.prod(observation.shape) * np.dtype(observation.dtype).itemsize
    own = trainer.plan.num_steps
    if own * step_bytes > MOST_BYTES:
        raise RequestError(
            "memory",
            f"{envs} environments × {own} steps of observations take {format_bytes(own * step_bytes)}.",
            f"Use fewer --num-envs; {max(32, MOST_BYTES // (own * step_bytes // envs))} fit.",
        )
    cap = max(own, min(LONGEST, OBSERVATION_BYTES // step_bytes))
    return sorted({own, *(t for t in divisors(cast(int, ask.rollout_size)) if t <= cap)})


def tail_steps(trainer: Trainer) -> int:
    """Steps behind the windows, so that references know the rest of the episode, or almost all that γ leaves of it."""
    gamma, horizon = trainer.spec.gamma, trainer.env.horizon
    return horizon if gamma == 1 else min(horizon, math.ceil(math.log(CRITIC_WEIGHT) / math.log(max(gamma, 1e-9))))


def _other_sizes(size: int) -> list[int]:
    return [int(size * factor) for factor in SIZES if size * factor == int(size * factor) and size * factor >= 4]


def _key(ask: Ask, update: int, draw: str) -> Array:
    return jax.random.fold_in(stream_key(ask.seed or 0, "probe", update), DRAWS[draw])


def _geometry(trainer: Trainer, drawn: Source, ask: Ask, lengths: list[int]) -> Geometry:
    spec, plan, tail, size = trainer.spec, trainer.plan, tail_steps(trainer), cast(int, ask.rollout_size)
    constant = " less their mean, a constant" if spec.algo == "reinforce" and spec.baseline == "mean" else ""
    return Geometry(
        num_envs=plan.num_envs,
        num_steps=plan.num_steps,
        minibatch_size=plan.minibatch_size,
        rollout_size=size,
        probe_envs=drawn.num_envs,
        probe_steps=max(lengths),
        tail_steps=tail,
        num_batches=ask.num_batches,
        start=ask.start,
        burn_in=drawn.burn_in,
        seed=ask.seed or 0,
        algo=spec.algo,
        gamma=spec.gamma,
        gae_lambda=spec.gae_lambda,
        advantages=f"unnormalised{constant}",
        reference=f"λ = 1, {tail} steps beyond the window: the critic's weight there is {spec.gamma**tail:.2g}",
        left_out=tuple(t for t in divisors(size) if t > max(lengths)),
    )


def _command(path: Path, update: int, ask: Ask) -> str:
    """The command that makes the same probe."""
    given = [(field.name, getattr(ask, field.name)) for field in fields(Ask)]
    flags = [f"--{name.replace('_', '-')} {value}" for name, value in given if value is not None]
    return f"rollshape probe {shlex.quote(str(path))} --checkpoint {update} {' '.join(flags)}"
