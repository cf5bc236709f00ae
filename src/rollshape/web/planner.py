"""The planner's view: the nearest legal plan of what the controls say, its diagram, and fixes of its findings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.algorithms import RULES, Algo
from rollshape.geometry.diagram import diagram_boxes, svg
from rollshape.geometry.dialects import DIALECTS, translate
from rollshape.geometry.dialects.describe import find_dialects
from rollshape.geometry.dialects.text import as_yaml
from rollshape.geometry.dialects.translate import write_plan
from rollshape.geometry.machine import Machine, assume_machine, machine
from rollshape.geometry.plan import Plan, plan
from rollshape.geometry.request import Request
from rollshape.geometry.rules.fixes import legal_minibatch_counts, suggest_fix

MOST_SNAPS = 4
MOST_COUNTS = 200


def planner_document(arguments: Mapping[str, Any], *, vertical: bool, with_fixes: bool) -> dict[str, Any]:
    """Return the plan of the nearest legal sizes and everything that the page draws from it.

    Sizes that are not legal are replaced by the nearest legal alternative; `snapped` says which, and why. Memory above
    that of the machine is not an error here but `memory_error`, so that there is a plan to look at.
    """
    target = machine()
    with assume_machine(Machine(target.cores, None)):
        result, request, snapped = _snap(dict(arguments))
    document: dict[str, Any] = {
        "plan": None if result is None else result.to_dict(),
        "snapped": snapped,
        "request": request,
        "memory_error": None,
    }
    if result is None:
        return document
    document |= {
        "svg": svg(result, vertical=vertical),
        "steps": [{"title": box.title, "number": box.number, "detail": box.detail} for box in diagram_boxes(result)],
        "legal_minibatches": legal_minibatch_counts(result)[:MOST_COUNTS],
        "memory_error": _memory_error(request, result, target),
    }
    if with_fixes:
        with assume_machine(Machine(target.cores, None)):
            complete = Request(**request)
            document["fixes"] = [_plain(suggest_fix(complete, result, finding)) for finding in result.findings]
    return document


def _plain(changes: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return changes in the names of the page, which has no minibatch size: it gives their number."""
    if changes is None:
        return None
    return {name: value for name, value in changes.items() if name != "minibatch_size"}


def _snap(arguments: dict[str, Any]) -> tuple[Plan | None, dict[str, Any], list[dict[str, Any]]]:
    """Return the plan, the sizes that it is made of and what was changed; no plan if no alternative is known."""
    snapped: list[dict[str, Any]] = []
    for _ in range(MOST_SNAPS):
        try:
            return plan(**arguments), arguments, snapped
        except RequestError as error:
            nearest = _nearest(arguments, error)
            entry = error.to_dict() | {"changes": nearest}
            snapped.append(entry)
            if not nearest:
                break
            arguments = {**arguments, **nearest}
    return None, arguments, snapped


def _nearest(arguments: Mapping[str, Any], error: RequestError) -> dict[str, Any]:
    """Return the changes of the alternative that changes fewest sizes, and those least; empty if there is none."""
    options = [
        {
            name: value
            for name, value in alternative.items()
            if arguments.get(name) != value and name != "minibatch_size"
        }
        for alternative in error.alternatives
    ]
    options = [option for option in options if option]
    return min(options, key=lambda option: _distance(arguments, option), default={})


def _distance(arguments: Mapping[str, Any], changes: Mapping[str, Any]) -> tuple[int, float]:
    """Return how many requested sizes change, and by which factor in all; N and T weigh more than the minibatches."""
    size, count = 0.0, 0
    for name, value in changes.items():
        old = arguments.get(name)
        if isinstance(old, int) and isinstance(value, int) and old > 0 and value > 0:
            count += 1 if name in ("num_minibatches", "num_epochs") else 2
            size += abs(math.log(value / old))
        elif old is not None:
            count += 2
    return count, size


def _memory_error(request: dict[str, Any], result: Plan, target: Machine) -> dict[str, Any] | None:
    """Return the error of a plan that does not fit into the memory of the machine, with sizes that do."""
    if result.memory is None or target.memory_bytes is None or result.memory.peak_bytes <= target.memory_bytes:
        return None
    with assume_machine(target):
        try:
            plan(**request)
        except RequestError as error:
            return error.to_dict()
    return None


def dialect_document(arguments: Mapping[str, Any], target: str) -> dict[str, Any]:
    """Return the plan of the controls as the config of a library, with its text and what is not preserved."""
    with assume_machine(Machine(machine().cores, None)):
        result, request = plan(**arguments), Request(**arguments)
        if result.replay is None:
            hyper = {"gamma": request.gamma, "gae_lambda": request.gae_lambda, "learning_rate": request.learning_rate}
            used = {name: value for name, value in hyper.items() if value is not None}
            translation = write_plan(result, target, used)
        else:
            config = {name: getattr(result.replay, name) for name in _REPLAY}
            budget = {} if result.total_timesteps is None else {"total_timesteps": result.total_timesteps}
            translation = translate(config | budget, "rollshape", "rrd")
    return translation.to_dict() | {"text": as_yaml(translation.config)}


_REPLAY = (
    "transition_batch_size", "train_batches", "steps_per_iteration", "rrd_batch_size", "rrd_sample_size",
    "learning_starts", "buffer_size",
)  # fmt: skip


def dialect_names(algo: Algo) -> list[dict[str, str]]:
    """Return the dialects that a plan of an algorithm can be written in; those of the same algorithm come first."""
    if RULES[algo].uses_replay:
        known = [dialect for dialect in find_dialects("rrd") if RULES[algo].uses_subsequences]
    else:
        known = [DIALECTS[name] for name in DIALECTS]
        known.sort(key=lambda dialect: dialect.algo != algo)
    return [{"name": dialect.name, "library": dialect.library, "algorithm": dialect.algorithm} for dialect in known]
