"""The Plan: every size of a run, decided before it starts."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.cut import FULL_BATCH, MinibatchSource, cut_rollout
from rollshape.geometry.memory import Memory, check_memory, on_policy_memory
from rollshape.geometry.minibatch import Split, automatic_minibatch
from rollshape.geometry.request import REPLAY_ONLY, Request, checked
from rollshape.geometry.rules import Finding, findings
from rollshape.geometry.solve import agreeing, solve_shape

DEFAULT_EPOCHS = 4


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The four batch sizes of RRD, and how often they are drawn; SAC has no subsequences.

    The replay has `slots_per_env` places for each environment: one for a transition, one for where an episode ended.
    """

    transition_batch_size: int
    train_batches: int
    steps_per_iteration: int
    rrd_batch_size: int
    rrd_sample_size: int
    num_subsequences: int
    learning_starts: int
    buffer_size: int
    slots_per_env: int
    updates_per_step: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All sizes of a run. Budget fields are None until a budget is asked for.

    `gradient_steps = num_updates × gradient_steps_per_update`, which is num_epochs × num_minibatches. GAE bootstraps
    after `gae_window` steps, the same as num_steps but for libraries that cut trajectories shorter. `dropped` samples
    are left out of each epoch (0 unless a remainder was accepted), and the last minibatch may be shorter or longer.
    """

    algo: str
    num_envs: int
    num_steps: int
    gae_window: int
    rollout_size: int
    minibatch_size: int
    minibatch_source: MinibatchSource
    minibatch_reason: str
    num_minibatches: int
    last_minibatch_size: int
    dropped: int = 0
    larger_minibatches: int = 0
    num_epochs: int
    total_timesteps: int | None = None
    actual_timesteps: int | None = None
    num_updates: int | None = None
    gradient_steps: int | None = None
    gradient_steps_per_update: int
    sample_reuse: float
    chosen: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()
    replay: Replay | None = None
    memory: Memory | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def split(self) -> Split:
        """How one epoch cuts the rollout."""
        return Split(
            self.rollout_size,
            self.minibatch_size,
            self.num_minibatches,
            self.last_minibatch_size,
            self.dropped,
            self.larger_minibatches,
        )

    def judged(self, found: tuple[Finding, ...]) -> Plan:
        """The plan with its findings, set before anybody holds it: a copy of 25 fields is a third of planning."""
        object.__setattr__(self, "findings", found)
        return self

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready values; RRD's sizes stand beside the others."""
        document = {field.name: getattr(self, field.name) for field in fields(self)}
        replay = document.pop("replay")
        document.update(vars(replay) if replay else {})
        document["chosen"], document["repaired"] = list(self.chosen), list(self.repaired)
        document["findings"] = [finding.to_dict() for finding in self.findings]
        document["memory"] = self.memory.to_dict() if self.memory else None
        return document


def plan(request: Request | None = None, /, **changes: Any) -> Plan:
    """Plan a run from any subset of `Request`'s fields: `plan(num_envs=16, num_steps=16)`."""
    request = checked(replace(request, **changes) if request else Request(**changes))
    if request.algo in ("rrd", "sac"):
        from rollshape.geometry.rrd import plan_replay

        return plan_replay(request)
    for name in REPLAY_ONLY:
        if getattr(request, name) is not None:
            raise RequestError("contradiction", f"{name} belongs to RRD, not to {request.algo}.", "Add --algo rrd.")
    cut = cut_rollout(request, solve_shape(request))
    shape, rollout, epochs = cut.shape, cut.split, _epochs(request)
    drafted = Plan(
        algo=request.algo,
        num_envs=shape.num_envs,
        num_steps=shape.num_steps,
        gae_window=shape.num_steps,
        rollout_size=shape.rollout_size,
        minibatch_size=rollout.minibatch_size,
        minibatch_source=cut.source,
        minibatch_reason=cut.reason,
        num_minibatches=rollout.num_minibatches,
        last_minibatch_size=rollout.last_minibatch_size,
        dropped=rollout.dropped,
        num_epochs=epochs,
        gradient_steps_per_update=epochs * rollout.num_minibatches,
        sample_reuse=epochs * (1 - rollout.dropped / shape.rollout_size),
        chosen=shape.chosen + (("num_epochs",) if request.num_epochs is None else ()),
        repaired=tuple(note for note in (shape.repaired, cut.repaired) if note),
        memory=_memory(request, shape.num_envs, shape.num_steps, rollout.minibatch_size),
        **_budget(request.total_timesteps, shape.rollout_size, epochs * rollout.num_minibatches),
    )
    return drafted.judged(findings(drafted, request))


def _memory(request: Request, num_envs: int, num_steps: int, minibatch_size: int) -> Memory:
    """The plan's bytes; more than the machine has is an error, with a smaller shape that fits."""
    memory = on_policy_memory(request, num_envs, num_envs * num_steps, minibatch_size)
    n, t, fits = num_envs, num_steps, memory
    while fits.peak_bytes > fits.machine_bytes and n * t > 1:
        n, t = (n // 2, t) if n > 1 else (n, t // 2)
        fits = on_policy_memory(request, n, n * t, _default_minibatch(request, n * t))
    fitting = {}
    if fits.peak_bytes <= fits.machine_bytes:
        sizes = {"num_envs": n, "num_steps": t, "minibatch_size": _default_minibatch(request, n * t)}
        fitting = agreeing(request, sizes)
    check_memory(memory, fitting)
    return memory


def _epochs(request: Request) -> int:
    if request.algo not in FULL_BATCH:
        return request.num_epochs or DEFAULT_EPOCHS
    if request.num_epochs not in (None, 1):
        raise RequestError(
            "full-batch",
            f"{request.algo} uses a rollout once: num_epochs = {request.num_epochs} contradicts it.",
            "Leave num_epochs out, or use --algo ppo, whose ratio clipping makes reuse safe.",
            [{"num_epochs": 1}],
        )
    return 1


def _default_minibatch(request: Request, rollout_size: int) -> int:
    return rollout_size if request.algo in FULL_BATCH else automatic_minibatch(rollout_size).size


def _budget(total: int | None, rollout: int, steps_per_update: int) -> dict[str, Any]:
    if total is None:
        return {}
    updates = total // rollout
    if updates == 0:
        raise RequestError(
            "zero-updates",
            f"total_timesteps {total:,} is less than one rollout of {rollout:,} samples: nothing would be trained.",
            f"The smallest budget that makes an update is {rollout:,}; or collect a smaller rollout.",
            [{"total_timesteps": rollout}],
        )
    return {
        "total_timesteps": total,
        "actual_timesteps": updates * rollout,
        "num_updates": updates,
        "gradient_steps": updates * steps_per_update,
    }
