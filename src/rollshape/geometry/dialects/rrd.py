"""RRD: the batch sizes in the reference code and in Rollshape."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import Normalization, Shuffle, TimeLimit
from rollshape.geometry.dialects.config import read_keys
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.minibatch import Remainder
from rollshape.geometry.plan import Plan, plan
from rollshape.geometry.values import MOST_TIMESTEPS, whole_number


def _upper_case(name: str) -> tuple[str, ...]:
    return (name.upper(),)  # shell scripts set TRAIN_BATCHES=64


class RrdDialect(Dialect):
    """Trains from a replay buffer; `rrd_batch_size` is a number of timesteps, silently rounded down."""

    name = "rrd"
    library = "Randomized Return Decomposition (reference code)"
    version = "bc80473"
    keys = (
        Key("batch_size", "transition_batch_size", 256, aliases=_upper_case("batch_size")),
        Key("train_batches", "train_batches", 100, aliases=_upper_case("train_batches")),
        Key("timesteps", "steps_per_iteration", 100, aliases=_upper_case("timesteps")),
        Key("rrd_batch_size", "rrd_batch_size", 256, aliases=_upper_case("rrd_batch_size")),
        Key("rrd_sample_size", "rrd_sample_size", 64, aliases=_upper_case("rrd_sample_size")),
        Key("warmup", EXTRA, 10_000, aliases=_upper_case("warmup")),
        Key("buffer_size", EXTRA, 1_000_000, aliases=_upper_case("buffer_size")),
        Key("epochs", EXTRA, 3),
        Key("cycles", EXTRA, 100),
        Key("iterations", EXTRA, 100),
    )
    normalization = Normalization.OFF
    shuffle = Shuffle.REPLAY
    remainder = Remainder.DROP
    remainder_detail = (
        "rounds rrd_batch_size / rrd_sample_size down: a remainder is dropped, and zero means no training"
    )
    time_limit = TimeLimit.FINAL
    algo = "rrd"
    algorithm = "RRD"


_NAMES = {  # the reference code's name → Rollshape's
    "batch_size": "transition_batch_size",
    "train_batches": "train_batches",
    "timesteps": "steps_per_iteration",
    "rrd_batch_size": "rrd_batch_size",
    "rrd_sample_size": "rrd_sample_size",
    "warmup": "learning_starts",
    "buffer_size": "buffer_size",
}
_BUDGET = ("epochs", "cycles", "iterations", "timesteps")


class _RollshapeRRD(Dialect):
    name = "rollshape"
    library = "Rollshape"
    version = "0.1.0"
    keys = (
        *(Key(_NAMES[key.name], key.concept) for key in RrdDialect.keys if key.name in _NAMES),
        Key("total_timesteps", "total_timesteps"),
    )
    remainder = Remainder.REFUSE
    remainder_detail = ""
    time_limit = TimeLimit.FINAL
    algo = "rrd"
    other_keys = frozenset({"num_envs", "num_steps", "algo"})


def translate_rrd(
    config: Mapping[str, Any], source: str, target: str, key: str | None
) -> tuple[dict[str, Any], Plan, tuple[str, ...]]:
    """Return (config, plan, not preserved) of a translation between the reference code and Rollshape."""
    for name in (source, target):
        if name not in ("rrd", "rollshape"):
            raise RequestError(
                "family",
                f"rrd trains from a replay buffer, {name} from rollouts: their sizes cannot be translated.",
                "Translate between rrd and rollshape, or between on-policy dialects.",
            )
    source_dialect: Dialect = RrdDialect() if source == "rrd" else _RollshapeRRD()
    reading = read_keys(config, source_dialect, key)
    numbers = {
        name: whole_number(name, value, least=0 if name in ("warmup", "learning_starts") else 1, most=MOST_TIMESTEPS)
        for name, value in reading.values.items()
        if value is not None
    }
    if source == "rrd":
        values = {entry.name: entry.default for entry in source_dialect.keys if entry.default is not None} | numbers
        total = prod(values[name] for name in _BUDGET)
        sizes = {ours: values[theirs] for theirs, ours in _NAMES.items()}
    else:
        total = numbers.pop("total_timesteps", None)
        sizes = numbers
    result = plan(algo="rrd", total_timesteps=total, **sizes)
    not_preserved = tuple(f"{name}: no counterpart in {target}" for name in reading.other_keys)
    return _emit(result, target), result, not_preserved


def _emit(result: Plan, target: str) -> dict[str, Any]:
    sizes = vars(result.replay)
    if target == "rollshape":
        config = {"algo": "rrd", **{ours: sizes[ours] for ours in _NAMES.values()}}
        return config | ({"total_timesteps": result.total_timesteps} if result.total_timesteps else {})
    config = {theirs: sizes[ours] for theirs, ours in _NAMES.items()}
    return config | ({"epochs": 1, "cycles": 1, "iterations": result.num_updates} if result.num_updates else {})
