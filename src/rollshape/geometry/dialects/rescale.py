"""Rescaling a config that works to another number of environments: what else must change, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from rollshape.errors import RequestError
from rollshape.geometry.calls import check_arguments
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.fit import make_valid, size_edits
from rollshape.geometry.dialects.keys import Key
from rollshape.geometry.dialects.policies import ENVS_ONLY, POLICIES, PolicyName, RescalePolicy, scale_sizes
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import ParsedConfig, read
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.registry import DIALECTS, resolve
from rollshape.geometry.dialects.rescale_edits import budget_edits, planned_edits, rate_edits
from rollshape.geometry.dialects.rescale_evidence import Evidence, find_evidence
from rollshape.geometry.dialects.rescale_reasons import ENVIRONMENTS, give_reason
from rollshape.geometry.dialects.sharing import rank_problem
from rollshape.geometry.dialects.sources.source import Edit, apply_edits
from rollshape.geometry.divisors import nearest_divisor, nearest_quotient
from rollshape.geometry.plan import Plan
from rollshape.geometry.values import whole_number

_CHECKED = ("num_envs", "num_steps", "minibatch_size", "num_minibatches", "num_epochs")
_EFFECTS = (
    "num_steps", "rollout_size", "minibatch_size", "num_minibatches", "gradient_steps_per_update", "num_updates",
    "gradient_steps", "actual_timesteps",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """A key of the config that changes, in the library's own name."""

    key: str
    before: Any
    after: Any
    reason: str

    def to_dict(self) -> dict[str, Any]:
        return {"key": self.key, "before": self.before, "after": self.after, "reason": self.reason}


@dataclass(frozen=True)
class Rescaled:
    """A config for another number of environments, what changed, and what its library runs before and after."""

    config: dict[str, Any]
    policy: PolicyName
    changes: tuple[Change, ...]
    before: Plan
    plan: Plan
    evidence: Evidence
    notes: tuple[str, ...]
    edits: tuple[Edit, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "config": self.config,
            "policy": self.policy,
            "changes": [change.to_dict() for change in self.changes],
            "plan": self.plan.to_dict(),
            "evidence": self.evidence.to_dict(),
            "notes": list(self.notes),
        }


@check_arguments
def rescale(
    config: Mapping[str, Any],
    dialect: str,
    num_envs: int | None = None,
    *,
    from_num_envs: int | None = None,
    world_size: int | None = None,
    from_world_size: int | None = None,
    policy: PolicyName | Literal["auto"] = "auto",
    key: str | None = None,
    file: str | None = None,
    num_agents: int | None = None,
    recurrent: bool | None = None,
    seq_length: int | None = None,
) -> Rescaled:
    """Return a config that works, rescaled to `num_envs` environments: `rescale(config, "sb3", 4)`.

    `from_num_envs` is the number of environments it works with, if that is not in the config; `key` selects a level of
    a nested config. `world_size` is the new number of processes (GPUs), `from_world_size` the one it works with;
    numbers of environments are those of all processes, and by default each process keeps its own. `policy` says what is
    kept (`POLICIES`). `auto` considers the policies that are statistically tied with the best one of the study
    `rescale`, and chooses the one that changes the fewest keys. `file` is the path of the config, whose name may say
    which algorithm it is for. The input is not modified.
    """
    library = resolve(dialect, config, key=key, file=file)
    facts = {"key": key, "file": file, "num_agents": num_agents, "recurrent": recurrent, "seq_length": seq_length}
    source = _read_source(config, library, from_num_envs, from_world_size, facts)
    before = source.parsed.recipe
    if num_envs is None and world_size is None:
        raise RequestError("flags", "rescale needs another number of environments.", "Give --num-envs or --gpus.")
    processes = before.world_size if world_size is None else whole_number("world_size", world_size)
    if num_envs is None:
        num_envs = nearest_quotient(before.num_envs * processes, before.world_size)
    asked = _Asked(whole_number("num_envs", num_envs), processes)
    evidence = find_evidence(before.num_envs, asked.num_envs)
    if policy != "auto":
        return source.rescale(asked, POLICIES[policy], evidence)
    results, errors = [], []
    for name in evidence.candidates:
        try:
            results.append(source.rescale(asked, POLICIES[name], evidence))
        except RequestError as error:  # such as a learning rate that is not a number
            errors.append(error)
    if not results:
        raise errors[0]
    return min(results, key=lambda result: len(result.changes))


def _adapt(library: Dialect, recipe: Recipe) -> Recipe:
    """Return the nearest recipe that the library can express; minibatches of whole windows keep the window."""
    nearest, window = library.adapt(recipe), recipe.gae_window
    if nearest.gae_window in (window, recipe.num_steps) or recipe.rollout_size % window:
        return nearest
    count = nearest_divisor(recipe.rollout_size // window, nearest_quotient(recipe.minibatch_size, window))
    size = window * count
    return library.adapt(replace(recipe, minibatch_size=size, num_minibatches=recipe.rollout_size // size))


class _Asked(NamedTuple):
    """What is asked for; environments are those of all processes."""

    num_envs: int
    world_size: int


def _read_source(
    values: Mapping[str, Any],
    library: Dialect,
    num_envs: int | None,
    world_size: int | None,
    facts: Mapping[str, Any],
) -> _Source:
    try:
        parsed = read(values, library, num_envs=num_envs, world_size=world_size, candidates=DIALECTS, **facts)
    except RequestError as error:
        if error.rule == "missing-key" and num_envs is None and "num_envs" in error.message:
            fix = "Use --from-num-envs: the number of environments that it works with."
            raise RequestError("missing-key", error.message, fix) from None
        raise
    return _Source(values, library, parsed, predict(library, parsed.recipe), facts)


@dataclass(frozen=True)
class _Source:
    """The config that works: what it contains, and what its library runs."""

    values: Mapping[str, Any]
    library: Dialect
    parsed: ParsedConfig
    plan: Plan
    facts: Mapping[str, Any]  # further arguments of `read`

    def rescale(self, asked: _Asked, policy: RescalePolicy, evidence: Evidence) -> Rescaled:
        """Return the config under a policy, after reading it again and comparing what its library will run."""
        wanted = self._target(asked, policy)
        if (error := rank_problem(self.library, wanted)) is not None:
            raise error
        nearest = wanted if policy.name == ENVS_ONLY else _adapt(self.library, wanted)
        target, why = make_valid(self.library, nearest)
        if nearest.minibatch_size != wanted.minibatch_size and not why:
            why = f"nearest to {wanted.minibatch_size:,} that {self.library.name} accepts for {wanted.rollout_size:,}"
        is_kept = policy.name == ENVS_ONLY and target is wanted
        edits = list(size_edits(self.library, self.parsed, target, is_kept=is_kept))
        if policy.name != ENVS_ONLY and asked.num_envs != self.plan.num_envs:
            edits += planned_edits(self.library, self.parsed, target)
        if policy.name != ENVS_ONLY and self._read(edits, asked).num_updates != target.num_updates:
            edits += budget_edits(self.library, self.parsed, target)
        sizes = self.plan.minibatch_size, predict(self.library, target).minibatch_size
        edits += rate_edits(self.library, self.parsed, self.values, sizes, policy)
        plan = predict(self.library, self._read(edits, asked))
        self._check(plan, target, policy)
        return Rescaled(
            config=apply_edits(self.values, edits),
            policy=policy.name,
            changes=tuple(self._changes(edits, plan, policy, why)),
            before=self.plan,
            plan=plan,
            evidence=evidence,
            notes=tuple(self._notes(plan, policy)),
            edits=tuple(edits),
        )

    def _target(self, asked: _Asked, policy: RescalePolicy) -> Recipe:
        """Return the sizes that the policy asks for; the library may have to adapt them."""
        if policy.name == ENVS_ONLY:
            return read(self.values, self.library, **asked._asdict(), **self.facts).recipe
        effective = replace(self.parsed.recipe, minibatch_size=self.plan.minibatch_size)
        scaled = scale_sizes(effective, *asked, policy)
        if scaled.total_timesteps is None or scaled.num_updates is not None:
            return scaled
        return replace(scaled, num_updates=max(1, self.library.updates(scaled.total_timesteps, scaled.rollout_size)))

    def _read(self, edits: Iterable[Edit], asked: _Asked) -> Recipe:
        """Return the recipe of the edited config; its own number of environments counts if it contains one."""
        values, given = apply_edits(self.values, edits), None if self._contains_envs() else asked.num_envs
        return read(values, self.library, num_envs=given, world_size=asked.world_size, **self.facts).recipe

    def _contains_envs(self) -> bool:
        keys = [entry for entry in self.library.keys if entry.concept in ENVIRONMENTS]
        return any(entry.default is not None or self.parsed.values.get(entry.name) is not None for entry in keys)

    def _check(self, plan: Plan, target: Recipe, policy: RescalePolicy) -> None:
        """Raise a RequestError unless the library runs the sizes that were meant."""
        meant = predict(self.library, target)
        for name in _CHECKED:
            got, wanted = getattr(plan, name), getattr(meant, name)
            if got != wanted:
                raise RequestError(
                    "rescale",
                    f"{self.library.name}: {policy.name} needs {name} {wanted:,}, but the edited config gives {got:,}.",
                    "Check keys that multiply or override a size, or use another policy.",
                )

    def _changes(self, edits: Iterable[Edit], plan: Plan, policy: RescalePolicy, why: str) -> Iterator[Change]:
        if plan.world_size != self.plan.world_size:
            reason = "requested; not in the config: set it where the processes are started"
            yield Change("world_size", self.plan.world_size, plan.world_size, reason)
        if not self._contains_envs() and plan.num_envs != self.plan.num_envs:
            entry = next(entry for entry in self.library.keys if entry.concept in ENVIRONMENTS)
            reason = "requested; not in the config: set it where the environments are created"
            yield Change(entry.name, self.plan.num_envs, plan.num_envs, reason)
        for edit in edits:
            entry = self._entry(edit)
            old = self.parsed.reading.values.get(entry.name, entry.default)
            reason = give_reason(entry, self.plan, plan, policy, why) or f"required by {self.library.name}"
            yield Change(".".join(edit.path), old, edit.value, reason)

    def _entry(self, edit: Edit) -> Key:
        """Return the key that an edit changes or adds."""
        paths = self.parsed.reading.paths
        for entry in self.library.keys:
            path = paths.get(entry.name)
            if path == edit.path or (path is None and edit.path[-1] in (entry.leaf, entry.name)):
                return entry
        raise AssertionError(edit)  # every edit is that of a key

    def _notes(self, plan: Plan, policy: RescalePolicy) -> Iterator[str]:
        """Yield what the library will do differently, and what to know about the policy."""
        for name in _EFFECTS:
            old, new = getattr(self.plan, name), getattr(plan, name)
            if old != new:
                yield f"{name}: {old:,} → {new:,}"
        if policy.lr_power and "adaptive_kl" in self.parsed.recipe.hyper:
            yield "the learning rate is adapted to the KL divergence during training: only its first value is scaled"
