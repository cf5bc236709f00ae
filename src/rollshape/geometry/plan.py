"""The Plan: every size of a run, decided before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.algorithms import REPLAY_ALGORITHMS, RULES, Algo
from rollshape.geometry.calls import check_arguments
from rollshape.geometry.completions import COMPLETION_ALGORITHMS, CompletionAlgo, CompletionSizes
from rollshape.geometry.fields import new_record
from rollshape.geometry.grain import Grain, in_global_sizes
from rollshape.geometry.memory import Memory, check_memory, fits, on_policy_memory
from rollshape.geometry.minibatch import Split, automatic_minibatch
from rollshape.geometry.partition import MinibatchSource, partition_rollout
from rollshape.geometry.request import REPLAY_SIZES, SHARED_SIZES, Request
from rollshape.geometry.rules import Finding, check_rules
from rollshape.geometry.solve import Shape, check_size, complete_alternative, consistent_alternative, solve_shape
from rollshape.geometry.values import MOST_TIMESTEPS

_DEFAULTS = {field.name: field.default for field in fields(Request)}


@dataclass(frozen=True, kw_only=True)
class ReplayPlan:
    """The batch sizes of an algorithm with a replay buffer; the subsequence sizes are 0 for SAC.

    The buffer has `slots_per_env` slots for each environment: one per transition, and one per end of an episode.
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
    """All sizes of a run. The fields that depend on a budget are None if no budget is given.

    `gradient_steps = num_updates × gradient_steps_per_update`, and the latter is num_epochs × num_minibatches. GAE
    bootstraps after `gae_window` steps, which is num_steps except for libraries that use shorter trajectories. Each
    epoch omits `dropped` samples (0 unless a remainder was accepted), and its last minibatch may have another size.

    Sizes are those of all `world_size` processes; `…_per_rank` are those of one. The rollout has num_envs × num_steps ×
    num_agents samples. With a recurrent policy, minibatches consist of sequences of `seq_length` steps.
    """

    algo: Algo | CompletionAlgo
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
    num_agents: int = 1
    world_size: int = 1
    recurrent: bool = False
    seq_length: int | None = None
    total_timesteps: int | None = None
    actual_timesteps: int | None = None
    num_updates: int | None = None
    gradient_steps: int | None = None
    gradient_steps_per_update: int
    sample_reuse: float
    chosen: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()
    replay: ReplayPlan | None = None
    completions: CompletionSizes | None = None  # of a language model trainer
    memory: Memory | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def split(self) -> Split:
        """The minibatches of one epoch."""
        return Split(
            self.rollout_size,
            self.minibatch_size,
            self.num_minibatches,
            self.last_minibatch_size,
            self.dropped,
            self.larger_minibatches,
            self.world_size,
        )

    @property
    def shape(self) -> str:
        """The rollout as text: `64 × 32 = 2,048`, with the agents if there are several."""
        agents = f" × {self.num_agents:,} agents" if self.num_agents > 1 else ""
        return f"{self.num_envs:,} × {self.num_steps:,}{agents} = {self.rollout_size:,}"

    @property
    def per_rank(self) -> dict[str, int]:
        """The sizes of one process."""
        names = ("num_envs", "rollout_size", "minibatch_size")
        return {f"{name}_per_rank": getattr(self, name) // self.world_size for name in names}

    def updates_until(self, timesteps: int) -> int:
        """Return the number of updates that make at least so many timesteps."""
        return -(-timesteps // self.rollout_size)

    def split_minibatch(self, parts: int) -> int:
        """Return the size of a minibatch in `parts`, or the size itself if they would not be equal."""
        return self.minibatch_size if self.minibatch_size % parts else self.minibatch_size // parts

    def attach_findings(self, findings: tuple[Finding, ...]) -> Plan:
        """Set the findings of a plan that was just created, and return it.

        Findings depend on the plan, so they come last. Copying all fields would take a third of the planning time.
        """
        object.__setattr__(self, "findings", findings)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready values; the fields of `replay` and `completions` are at the top level."""
        document = {field.name: getattr(self, field.name) for field in fields(self)}
        replay, completions = document.pop("replay"), document.pop("completions")
        document.update(vars(replay) if replay else {})
        document.update(self.per_rank)
        document.update(asdict(completions) if completions else {})
        document["chosen"], document["repaired"] = list(self.chosen), list(self.repaired)
        document["findings"] = [finding.to_dict() for finding in self.findings]
        document["memory"] = self.memory.to_dict() if self.memory else None
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Plan:
        """Return the plan that `to_dict` wrote; unknown keys are ignored."""
        values = {field.name: document[field.name] for field in fields(cls) if field.name in document}
        replay_fields = [field.name for field in fields(ReplayPlan)]
        if all(name in document for name in replay_fields):
            values["replay"] = ReplayPlan(**{name: document[name] for name in replay_fields})
        completion_fields = [field.name for field in fields(CompletionSizes)]
        if all(name in document for name in completion_fields):
            values["completions"] = CompletionSizes(**{name: document[name] for name in completion_fields})
        memory = document.get("memory")
        values["memory"] = Memory.from_dict(memory) if memory else None
        values["findings"] = tuple(Finding.from_dict(finding) for finding in document.get("findings", ()))
        for name in ("chosen", "repaired"):
            values[name] = tuple(document.get(name, ()))
        return cls(**values)


@check_arguments
def plan(request: Request | None = None, /, **changes: Any) -> Plan:
    """Plan a run from any subset of the fields of `Request`: `plan(num_envs=16, num_steps=16)`.

    With `algo="grpo"` or `"rloo"`, the fields are those of `CompletionRequest` (language models).
    """
    if isinstance(algo := changes.get("algo"), str) and algo in COMPLETION_ALGORITHMS:
        from rollshape.geometry.completion_plan import plan_completions

        return plan_completions(**changes)
    _check_product(request, changes)
    request = new_record(Request, request, changes)
    if RULES[request.algo].uses_replay:
        from rollshape.geometry.rrd import plan_replay

        _refuse_fields(request, SHARED_SIZES, "on-policy algorithms", "Leave it out.")
        return plan_replay(request)
    if any(getattr(request, name) != _DEFAULTS[name] for name in SHARED_SIZES):
        return in_global_sizes(request, _plan_rollout, complete_alternative)
    return _plan_rollout(request)


def _refuse_fields(request: Request, names: tuple[str, ...], owner: str, fix: str) -> None:
    for name in names:
        if getattr(request, name) != _DEFAULTS[name]:
            raise RequestError("contradiction", f"{name} belongs to {owner}, not to {request.algo}.", fix)


def _plan_rollout(request: Request) -> Plan:
    """Plan an on-policy run; the sizes of the request are those of all processes."""
    fix = f"Leave it out, or use --algo {' or --algo '.join(REPLAY_ALGORITHMS)}."
    _refuse_fields(request, ("preset", *REPLAY_SIZES), "RRD and SAC", fix)
    partition = partition_rollout(request, solve_shape(request))
    shape, split, epochs = partition.shape, partition.split, _num_epochs(request)
    result = Plan(
        algo=request.algo,
        num_envs=shape.num_envs,
        num_steps=shape.num_steps,
        gae_window=shape.num_steps,
        rollout_size=shape.rollout_size,
        minibatch_size=split.minibatch_size,
        minibatch_source=partition.source,
        minibatch_reason=partition.reason,
        num_minibatches=split.num_minibatches,
        last_minibatch_size=split.last_minibatch_size,
        dropped=split.dropped,
        num_epochs=epochs,
        num_agents=request.num_agents,
        world_size=request.world_size,
        recurrent=request.recurrent,
        seq_length=request.seq_length or (shape.num_steps if request.recurrent else None),
        gradient_steps_per_update=epochs * split.num_minibatches,
        sample_reuse=epochs * (1 - split.dropped / shape.rollout_size),
        chosen=shape.chosen + (("num_epochs",) if request.num_epochs is None else ()),
        repaired=tuple(note for note in (shape.repaired, partition.repaired) if note),
        memory=_memory(request, shape, split.minibatch_size),
        **_budget(request.total_timesteps, shape.rollout_size, epochs * split.num_minibatches),
    )
    return result.attach_findings(check_rules(result, request))


def _check_product(request: Request | None, changes: Mapping[str, Any]) -> None:
    """Check N·T before the single sizes: if one is too large, the nearest legal value depends on the other one."""
    n, t = (changes.get(name, getattr(request, name, None)) for name in ("num_envs", "num_steps"))
    if type(n) is int and type(t) is int and 0 < n < MOST_TIMESTEPS and 0 < t < MOST_TIMESTEPS:
        check_size(n, t)


def _memory(request: Request, shape: Shape, minibatch_size: int) -> Memory:
    """Estimate the memory of one process; more than the machine has is an error that offers a smaller shape."""
    grain, world = Grain.of(request), request.world_size

    def estimate(shape: Shape, size: int) -> Memory:
        return on_policy_memory(
            request, shape.num_envs * shape.num_agents // world, shape.rollout_size // world, size // world
        )

    memory = estimate(shape, minibatch_size)
    if fits(memory):
        return memory
    small, smaller = shape, memory
    while not fits(smaller) and (small.num_envs > grain.envs or small.num_steps > grain.steps):
        small = _half(small, grain)
        smaller = estimate(small, _default_minibatch(request, small))
    alternative = {}
    if fits(smaller):
        sizes = {"num_envs": small.num_envs, "num_steps": small.num_steps}
        alternative = consistent_alternative(request, sizes | {"minibatch_size": _default_minibatch(request, small)})
    check_memory(memory, alternative)
    return memory


def _half(shape: Shape, grain: Grain) -> Shape:
    """Return half of the environments, or of the steps if there is only one (per process) left."""
    if shape.num_envs > grain.envs:
        return replace(shape, num_envs=max(1, shape.num_envs // 2 // grain.envs) * grain.envs)
    return replace(shape, num_steps=max(1, shape.num_steps // 2 // grain.steps) * grain.steps)


def _num_epochs(request: Request) -> int:
    rules = RULES[request.algo]
    if rules.full_batch and request.num_epochs not in (None, 1):
        raise RequestError(
            "full-batch",
            f"{request.algo} uses each rollout once; num_epochs {request.num_epochs} is not possible.",
            "Leave num_epochs out, or use --algo ppo, whose clipped ratio makes reuse safe.",
            [{"num_epochs": 1}],
        )
    return request.num_epochs or rules.default_epochs


def _default_minibatch(request: Request, shape: Shape) -> int:
    if RULES[request.algo].full_batch:
        return shape.rollout_size
    return automatic_minibatch(shape.rollout_size, Grain.of(request).minibatch_unit(shape.num_steps)).size


def _budget(total: int | None, rollout: int, steps_per_update: int) -> dict[str, Any]:
    if total is None:
        return {}
    updates = total // rollout
    if updates == 0:
        raise RequestError(
            "zero-updates",
            f"total_timesteps {total:,} is less than one rollout of {rollout:,} samples: nothing would be trained.",
            f"Use total_timesteps {rollout:,} or more, or a smaller rollout.",
            [{"total_timesteps": rollout}],
        )
    return {
        "total_timesteps": total,
        "actual_timesteps": updates * rollout,
        "num_updates": updates,
        "gradient_steps": updates * steps_per_update,
    }
