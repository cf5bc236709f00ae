"""`probe` of an RRD run: what its reward batch is worth, and what it makes of an episode's return."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rollshape.files import atomic_write
from rollshape.geometry.divisors import divisors
from rollshape.probes.files import THEN, folder_for, write_figure
from rollshape.probes.redistribution import Redistribution, draw_redistribution, redistribution
from rollshape.probes.result import plain, with_ci
from rollshape.probes.rrd_gradient import DRAWS, RewardGradient, reward_gradient_surface
from rollshape.training import checkpoint as checkpoints
from rollshape.training.run import Run, open_run, use_compilation_cache
from rollshape.training.rundir import RunDirectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class RewardProbe:
    """Of one checkpoint of a run of RRD."""

    run_dir: str
    update: int
    timesteps: int
    command: str
    rrd_batch_size: int
    rrd_sample_size: int  # the run's own
    unbiased: bool
    draws: int
    seed: int
    surface: list[RewardGradient]  # every K that cuts the batch, by rising K
    redistribution: Redistribution

    @property
    def best(self) -> RewardGradient:
        """The least error of one step."""
        return min(self.surface, key=lambda point: point.mse)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document; what is not a number is null."""
        found = self.redistribution
        document: dict[str, Any] = plain({
            "run_dir": self.run_dir, "update": self.update, "timesteps": self.timesteps, "command": self.command,
            "rrd_batch_size": self.rrd_batch_size, "rrd_sample_size": self.rrd_sample_size, "unbiased": self.unbiased,
            "draws": self.draws, "seed": self.seed,
            "reward_surface": [
                {"rrd_sample_size": point.rrd_sample_size, "num_subsequences": point.num_subsequences, "mse": point.mse,
                 **with_ci({"variance": point.variance, "bias2": point.bias2, "squared_norm": point.squared_norm})}
                for point in self.surface
            ],
            "best": {"rrd_sample_size": self.best.rrd_sample_size, "num_subsequences": self.best.num_subsequences},
            "redistribution": {"true": found.true.tolist(), "predicted": found.predicted.tolist(),
                               "correlation": found.correlation},
        })  # fmt: skip
        return document

    def save(self, *, figures: bool = True) -> Path:
        """RUN_DIR/probes/UPDATE with probe.json and figures; a probe of the same update is written over."""
        folder = folder_for(self.run_dir, self.update)
        with atomic_write(folder / "probe.json", THEN) as file:
            file.write(json.dumps(self.to_dict(), indent=2, allow_nan=False).encode())
        drawn = {"reward_gradient": draw_reward_gradient(self), "redistribution": self._episode()} if figures else {}
        for name, figure in drawn.items():
            write_figure(figure, folder / f"{name}.png")
        return folder

    def _episode(self) -> Figure:
        return draw_redistribution(self.redistribution, f"{Path(self.run_dir).name}, update {self.update:,}")


def probe_rewards(
    run: Run | str | Path,
    checkpoint: int | Literal["latest"] = "latest",
    *,
    seed: int | None = None,
    draws: int = DRAWS,
) -> RewardProbe:
    """Measure the reward network of an RRD run: few long or many short subsequences, and an episode's rewards."""
    path = run.path if isinstance(run, Run) else Path(run)
    use_compilation_cache()
    folder = RunDirectory(path).checkpoints
    update = checkpoints.update_of(checkpoints.find(folder, None if checkpoint == "latest" else checkpoint))
    trainer, state = open_run(path, update)
    try:
        spec, replay = trainer.spec, trainer.plan.replay
        size = replay.rrd_batch_size if replay else 0
        own = replay.rrd_sample_size if replay else 0
        sizes = sorted({k for k in (*divisors(max(size, 1)), own) if 2 <= k <= size and size % k == 0})
        seed = spec.seed if seed is None else seed
        return RewardProbe(
            run_dir=str(path),
            update=update,
            timesteps=update * trainer.plan.rollout_size,
            command=f"rollshape probe {shlex.quote(str(path))} --checkpoint {update} --seed {seed}",
            rrd_batch_size=size,
            rrd_sample_size=own,
            unbiased=spec.rrd_unbiased,
            draws=draws,
            seed=seed,
            surface=reward_gradient_surface(trainer, state, size, sizes, spec.rrd_unbiased, draws, seed),
            redistribution=redistribution(trainer, state),
        )
    finally:
        trainer.close()


def answer(probe: RewardProbe) -> list[str]:
    """In words, each with its uncertainty."""
    best, size = probe.best, probe.rrd_batch_size
    own = next((point for point in probe.surface if point.rrd_sample_size == probe.rrd_sample_size), None)
    told = probe.redistribution.correlation
    lines = [
        f"Of {size:,} timesteps, {best.num_subsequences:,} subsequences of {best.rrd_sample_size:,} give the reward "
        f"network's gradient with the least error: {best.mse:.3g}, of which variance {best.variance.value:.3g} "
        f"({best.variance.low:.3g} … {best.variance.high:.3g}).",
    ]
    if own is not None and own is not best:
        lines.append(
            f"The run's own {own.num_subsequences:,} of {own.rrd_sample_size:,}: {own.mse:.3g}, variance "
            f"{own.variance.value:.3g} ({own.variance.low:.3g} … {own.variance.high:.3g})."
        )
    lines.append(
        "Along its latest episode true or redistributed rewards do not vary."
        if told is None
        else f"Along its latest episode of {len(probe.redistribution.true):,} steps redistributed and true rewards "
        f"correlate by {told:.2f} (one episode: no interval)."
    )
    return lines


def draw_reward_gradient(probe: RewardProbe) -> Figure:
    """bias² and variance of every way to spend the batch; intervals are the variance's."""
    import numpy as np
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained", dpi=120)
    axis, places = figure.subplots(), np.arange(len(probe.surface))
    bias2 = np.array([max(point.bias2.value, 0.0) for point in probe.surface])
    value, low, high = (np.array([getattr(p.variance, end) for p in probe.surface]) for end in ("value", "low", "high"))
    axis.bar(places, bias2, color="#e08a2e", label="bias² of the plain loss")
    axis.bar(places, value, bottom=bias2, color="#3b6fb6", label="variance, 95 % interval",
             yerr=np.maximum([value - low, high - value], 0), ecolor="#8a8a8a", capsize=2)  # fmt: skip
    axis.set_xticks(places, [f"{p.num_subsequences}×{p.rrd_sample_size}" for p in probe.surface], rotation=45)
    axis.set(xlabel="subsequences × rrd_sample_size", ylabel="squared error of the gradient",
             title=f"Every way to spend {probe.rrd_batch_size:,} timesteps")  # fmt: skip
    axis.legend(frameon=False, fontsize=8)
    figure.supxlabel(probe.command, fontsize=6, color="#8a8a8a")
    return figure
