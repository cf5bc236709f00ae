"""Changes that remove a finding: candidates of each rule, and the first one that is verified by planning again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.divisors import divisors
from rollshape.geometry.grain import Grain, nearest_multiple
from rollshape.geometry.plan import Plan, plan
from rollshape.geometry.request import Request
from rollshape.geometry.rules.base import Finding
from rollshape.geometry.rules.budget import FEW_UPDATES
from rollshape.geometry.rules.minibatch import FEWEST, LARGE, MOST, SEVERAL_ENVS, SMALL
from rollshape.geometry.rules.window import CONTINUOUS_LOW, LONGEST_WINDOW, MANY_WINDOWS, REINFORCE_LEAST
from rollshape.geometry.values import MOST_SAMPLES

Changes = dict[str, Any]
Candidates = Callable[[Plan, Request, Finding], Iterator[Changes]]
MOST_DIVISORS = 10**9  # largest rollout whose divisors are listed


def legal_minibatch_counts(result: Plan) -> tuple[int, ...]:
    """Return every number of minibatches that divides the rollout of a plan evenly, ascending."""
    unit = Grain(result.world_size, result.seq_length or 1, result.num_agents).minibatch_unit(result.num_steps)
    units = result.rollout_size // unit
    return divisors(units) if units <= MOST_DIVISORS else (1,)


def suggest_fix(request: Request, result: Plan, finding: Finding) -> Changes | None:
    """Return changes of the request after which the finding is gone and no other warning is new; None without any."""
    known = {other.rule for other in result.findings if other.severity != "info"}
    candidates = _CANDIDATES.get(finding.rule)
    for changes in candidates(result, request, finding) if candidates else ():
        try:
            after = plan(replace(request, **changes))
        except RequestError:
            continue
        new = {other.rule for other in after.findings if other.severity != "info"} - known
        if not new and all(other.rule != finding.rule for other in after.findings):
            return changes
    return None


def _minibatches(result: Plan, is_good: Callable[[int], bool]) -> Iterator[Changes]:
    """Yield legal numbers of minibatches that satisfy a condition on the count, nearest first."""
    now = result.num_minibatches
    good = [count for count in legal_minibatch_counts(result) if is_good(count)]
    for count in sorted(good, key=lambda count: max(count, now) / min(count, now)):
        yield {"num_minibatches": count, "minibatch_size": "auto", "minibatch_size_per_rank": None}


def _minibatch_range(result: Plan, _: Request, __: Finding) -> Iterator[Changes]:
    yield from _minibatches(result, lambda count: SMALL <= result.rollout_size // count <= LARGE)


def _minibatches_per_epoch(result: Plan, _: Request, __: Finding) -> Iterator[Changes]:
    yield from _minibatches(result, lambda count: FEWEST <= count <= MOST)


def _larger_minibatch(result: Plan, _: Request, finding: Finding) -> Iterator[Changes]:
    least = finding.numbers["least"]
    yield from _minibatches(result, lambda count: result.rollout_size // count >= least)


def _minibatch_envs(result: Plan, request: Request, _: Finding) -> Iterator[Changes]:
    if result.num_envs >= SEVERAL_ENVS:
        yield from _minibatches(result, lambda count: count < result.num_minibatches)
    grain = Grain.of(request)
    for envs in (SEVERAL_ENVS, 2 * SEVERAL_ENVS, 4 * SEVERAL_ENVS):
        more = nearest_multiple(envs * grain.envs, grain.envs)
        steps = nearest_multiple(result.num_envs * result.num_steps // more or 1, grain.steps)
        yield {"num_envs": more, "num_steps": steps} | _automatic()


def _automatic() -> Changes:
    """Let the planner choose the minibatches of another rollout."""
    return {"rollout_size": None, "minibatch_size": "auto", "num_minibatches": None, "minibatch_size_per_rank": None}


def _resize(request: Request, **sizes: int) -> Iterator[Changes]:
    """Yield another shape: with the requested minibatches if they divide it, else with automatic ones."""
    changes: Changes = {**sizes, "rollout_size": None}
    if "num_envs" in sizes:
        changes["num_envs_per_rank"] = None
    yield changes
    if request.minibatch_size != "auto" or request.num_minibatches is not None:
        yield changes | _automatic()


def _awkward_rollout(_: Plan, request: Request, finding: Finding) -> Iterator[Changes]:
    for shape in finding.numbers["shapes"]:
        yield from _resize(request, **shape)


def _edge_weight(result: Plan, request: Request, _: Finding) -> Iterator[Changes]:
    steps = result.num_steps
    while (steps := 2 * steps) <= LONGEST_WINDOW:
        yield from _resize(request, num_steps=steps)


def _episode_length(_: Plan, request: Request, finding: Finding) -> Iterator[Changes]:
    length, grain = finding.numbers["episode_length"], Grain.of(request)
    for least in (length, length // MANY_WINDOWS + 1):
        yield from _resize(request, num_steps=-(-least // grain.steps) * grain.steps)


def _reinforce_samples(result: Plan, request: Request, _: Finding) -> Iterator[Changes]:
    grain = Grain.of(request)
    least = -(-REINFORCE_LEAST // (result.num_steps * result.num_agents))
    yield from _resize(request, num_envs=-(-least // grain.envs) * grain.envs)


def _continuous_samples(result: Plan, request: Request, _: Finding) -> Iterator[Changes]:
    if result.rollout_size >= CONTINUOUS_LOW:
        return
    grain = Grain.of(request)
    least = -(-CONTINUOUS_LOW // (result.num_envs * result.num_agents))
    for factor in (1, 2, 4):  # a number of steps without suitable divisors is not better
        power = 1 << (least * factor - 1).bit_length()
        for steps in (least * factor, power):
            yield from _resize(request, num_steps=-(-steps // grain.steps) * grain.steps)


def _few_updates(result: Plan, request: Request, _: Finding) -> Iterator[Changes]:
    budget = FEW_UPDATES * result.rollout_size
    if budget <= MOST_SAMPLES:
        yield {"total_timesteps": budget}
    grain, steps = Grain.of(request), result.num_steps * result.num_agents
    most = (request.total_timesteps or 0) // (FEW_UPDATES * steps) // grain.envs * grain.envs
    if most:
        yield from _resize(request, num_envs=most)


def _budget_rounding(result: Plan, _: Request, __: Finding) -> Iterator[Changes]:
    if result.actual_timesteps:
        yield {"total_timesteps": result.actual_timesteps}


def _rrd_sample_length(result: Plan, _: Request, finding: Finding) -> Iterator[Changes]:
    batch = result.replay.rrd_batch_size if result.replay else 1
    for size in reversed([size for size in divisors(batch) if size <= finding.numbers["episode_length"]]):
        yield {"rrd_sample_size": size}


def _rrd_warm_up(result: Plan, _: Request, finding: Finding) -> Iterator[Changes]:
    yield {"learning_starts": result.num_envs * finding.numbers["episode_length"]}


def _envs_cores(result: Plan, request: Request, finding: Finding) -> Iterator[Changes]:
    cores = finding.numbers["cores"]
    if result.num_envs < cores:
        yield from _resize(request, num_envs=-(-cores // request.world_size) * request.world_size)


_CANDIDATES: dict[str, Candidates] = {
    "minibatch-range": _minibatch_range,
    "minibatches-per-epoch": _minibatches_per_epoch,
    "minibatch-action-dim": _larger_minibatch,
    "minibatch-envs": _minibatch_envs,
    "awkward-rollout": _awkward_rollout,
    "edge-weight": _edge_weight,
    "episode-length": _episode_length,
    "reinforce-samples": _reinforce_samples,
    "continuous-samples": _continuous_samples,
    "few-updates": _few_updates,
    "budget-rounding": _budget_rounding,
    "rrd-sample-length": _rrd_sample_length,
    "rrd-warm-up": _rrd_warm_up,
    "envs-cores": _envs_cores,
}
