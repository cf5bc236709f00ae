"""The knee of an environment: the number of environments N beyond which steps/s no longer grow."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from rollshape.envs.access import EnvAccess
from rollshape.errors import RequestError
from rollshape.geometry.plan import Plan
from rollshape.training.speed import INTERVALS, NUM_MINIBATCHES, TrainingTimer, env_facts, new_spec, quartiles

GAIN = 10  # percent; a smaller increase of steps/s does not count
TURNING = 3  # numbers of environments that are compared in turns: the knee, its double and its fourfold
NUM_STEPS, MAX_ENVS = 32, 16_384

StopReason = Literal["no gain", "memory", "max_envs"]


class EnvsSpeed(NamedTuple):
    """Steps/s with N environments: the median of the intervals, and their quartiles."""

    num_envs: int
    sps: int
    sps_low: int
    sps_high: int
    ratio: float | None  # to the previous row
    compile_s: float
    intervals: int
    in_turns: bool  # measured again, interval by interval in turns with its neighbors


class Knee(NamedTuple):
    """Speeds at N = 1, 2, 4, …, and the knee; None if it is beyond the largest N that was measured.

    `knee_low` and `knee_high` are the knees if every speed may be anywhere between its quartiles; None likewise.
    """

    env: str
    num_steps: int
    knee: int | None
    knee_low: int | None
    knee_high: int | None
    stopped: StopReason
    rows: tuple[EnvsSpeed, ...]

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "rows": [row._asdict() for row in self.rows], "message": describe_knee(self)}


def find_knee(speeds: Sequence[float], later_speeds: Sequence[float] | None = None) -> int | None:
    """Return the first index i whose speed s[i] is not exceeded by 10 % after doubling N once or twice.

    i = min {i : max(s[i+1], s[i+2]) < 1.1 s[i]}; None if there is no such i with two doublings after it. Two doublings
    count together, so that steady growth of 6 % per doubling is growth. With `later_speeds`, these take the place of
    s[i+1] and s[i+2].
    """
    later = speeds if later_speeds is None else later_speeds
    return next((i for i in range(len(speeds) - 2) if 100 * max(later[i + 1 : i + 3]) < (100 + GAIN) * speeds[i]), None)


def summarize_knee(env_id: str, num_steps: int, stopped: StopReason, rows: Sequence[EnvsSpeed]) -> Knee:
    """Return the result of a search, with its uncertainty: a search that ends without a gain ends at the knee × 4."""
    low, high = [row.sps_low for row in rows], [row.sps_high for row in rows]
    earliest = find_knee(high, low)
    knee_low = None if earliest is None else rows[earliest].num_envs
    if stopped != "no gain":
        return Knee(env_id, num_steps, None, knee_low, None, stopped, tuple(rows))
    knee = rows[-3].num_envs
    is_certain = find_knee(low[-3:], high[-3:]) is not None
    return Knee(
        env_id, num_steps, knee, min(knee, knee_low or knee), knee if is_certain else None, stopped, tuple(rows)
    )


def measure_knee(
    env_id: str,
    num_steps: int = NUM_STEPS,
    max_envs: int = MAX_ENVS,
    seconds: float = 3.0,
    access: EnvAccess | None = None,
    on_row: Callable[[EnvsSpeed], None] = lambda _: None,
) -> Knee:
    """Time training at N = 1, 2, 4, … until N has doubled twice without a gain of 10 %.

    The last three N are then measured again in turns, because the speed of a machine drifts; if a gain shows, the
    search continues. It also stops at `max_envs`, and where the plan would not fit into memory. An invalid request, or
    a machine on which even the smallest N does not fit, is a RequestError.
    """
    access = access or EnvAccess()
    specs = [new_spec(env_id, f"{num_envs}x{num_steps}") for num_envs in _candidates(num_steps, max_envs)]
    facts = env_facts(env_id, access)
    rows: list[EnvsSpeed] = []
    timers: deque[TrainingTimer] = deque()  # of the last rows, at most three
    try:
        for spec in specs:
            try:
                plan = spec.plan(**facts)
            except RequestError as error:
                if error.rule != "memory" or not rows:
                    raise
                return summarize_knee(env_id, num_steps, "memory", rows)
            while timers and (len(timers) == TURNING or not _fit_together([*(timer.plan for timer in timers), plan])):
                timers.popleft().close()
            timers.append(TrainingTimer(spec, plan, seconds, access))
            rows.append(_new_row(timers[-1], timers[-1].time_intervals(seconds), rows[-1] if rows else None))
            on_row(rows[-1])
            if _is_flat(rows) and len(timers) == TURNING:
                rows[-TURNING:] = _measure_in_turns(timers, rows[-TURNING:], seconds)
                for row in rows[-TURNING:]:
                    on_row(row)
            if _is_flat(rows):
                return summarize_knee(env_id, num_steps, "no gain", rows)
        return summarize_knee(env_id, num_steps, "max_envs", rows)
    finally:
        for timer in timers:
            timer.close()


def _is_flat(rows: Sequence[EnvsSpeed]) -> bool:
    """Return whether the last two doublings gained less than 10 %."""
    return find_knee([row.sps for row in rows[-3:]]) is not None


def _fit_together(plans: Sequence[Plan]) -> bool:
    """Return whether several plans fit into memory at the same time; what they share is counted several times."""
    memories = [plan.memory for plan in plans if plan.memory is not None]
    most = min((memory.machine_bytes for memory in memories if memory.machine_bytes is not None), default=math.inf)
    return sum(memory.peak_bytes for memory in memories) <= most


def _measure_in_turns(
    timers: Sequence[TrainingTimer], rows: Sequence[EnvsSpeed], seconds: float
) -> Iterator[EnvsSpeed]:
    """Yield the rows with new speeds, each from intervals that alternate with those of the others."""
    began, turns = time.perf_counter(), list[list[float]]()
    while len(turns) < INTERVALS or time.perf_counter() - began < len(timers) * seconds:
        turns.append([timer.time_interval() for timer in timers])
    previous: EnvsSpeed | None = None
    for timer, row, speeds in zip(timers, rows, zip(*turns, strict=True), strict=True):
        new = _new_row(timer, speeds, previous)
        previous = new._replace(in_turns=True, ratio=row.ratio if previous is None else new.ratio)
        yield previous


def _new_row(timer: TrainingTimer, speeds: Sequence[float], previous: EnvsSpeed | None) -> EnvsSpeed:
    speed = quartiles(speeds)
    return EnvsSpeed(
        num_envs=timer.plan.num_envs,
        sps=round(speed.median),
        sps_low=round(speed.low),
        sps_high=round(speed.high),
        ratio=speed.median / previous.sps if previous and previous.sps else None,
        compile_s=timer.compile_s,
        intervals=len(speeds),
        in_turns=False,
    )


def _candidates(num_steps: int, max_envs: int) -> Iterator[int]:
    """Yield the powers of two up to `max_envs` whose rollout can be split into the minibatches."""
    num_envs = least = NUM_MINIBATCHES // math.gcd(num_steps, NUM_MINIBATCHES)
    if least > max_envs:
        raise RequestError(
            "flags",
            f"{max_envs} × {num_steps} samples cannot be split into {NUM_MINIBATCHES} minibatches.",
            f"Use --max-envs {least} or more, or a multiple of {NUM_MINIBATCHES} for --num-steps.",
        )
    while num_envs <= max_envs:
        yield num_envs
        num_envs *= 2


def describe_knee(result: Knee) -> str:
    """Return the result as one sentence, with its uncertainty."""
    last = result.rows[-1]
    if result.knee is None:
        limit = "--max-envs" if result.stopped == "max_envs" else f"{2 * last.num_envs:,} do not fit into memory"
        return f"No knee up to {_count_envs(last.num_envs)} ({limit}): steps/s may grow beyond {last.sps:,}."
    knee, *later = result.rows[-3:]
    gain = 100 * (max(row.sps for row in later) / max(1, knee.sps) - 1)
    if result.knee_low == result.knee_high:
        range_text = ""
    elif result.knee_high is None:
        range_text = f", {result.knee_low:,} or more within the quartiles"
    else:
        range_text = f", {result.knee_low:,} to {result.knee_high:,} within the quartiles"
    return (
        f"Knee: {_count_envs(knee.num_envs)}{range_text} ({knee.sps:,} steps/s, quartiles {knee.sps_low:,} to "
        f"{knee.sps_high:,} of {knee.intervals} intervals; up to {last.num_envs:,} environments: {gain:+.0f} %)."
    )


def _count_envs(count: int) -> str:
    return f"{count:,} environment{'' if count == 1 else 's'}"
