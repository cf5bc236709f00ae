"""Plans with a replay: SAC, and the four batch sizes of randomized return decomposition on it."""

from __future__ import annotations

from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.divisors import surrounding_divisors, surrounding_multiples
from rollshape.geometry.memory import Memory, check_memory, replay_memory
from rollshape.geometry.plan import Plan, Replay
from rollshape.geometry.request import RRD_ONLY, Request
from rollshape.geometry.rules import findings

_PAPER = {"steps_per_iteration": 100, "learning_starts": 10_000, "buffer_size": 1_000_000}
PRESETS: dict[str, dict[str, int]] = {
    "rrd-vector": {
        "transition_batch_size": 256, "train_batches": 25, "rrd_batch_size": 256, "rrd_sample_size": 64, **_PAPER,
    },
    "rrd-image": {
        "transition_batch_size": 32, "train_batches": 64, "rrd_batch_size": 32, "rrd_sample_size": 32, **_PAPER,
        "buffer_size": 100_000,
    },
    "rrd-paper": {
        "transition_batch_size": 256, "train_batches": 100, "rrd_batch_size": 256, "rrd_sample_size": 64, **_PAPER,
    },
}  # fmt: skip
PICTURE_AXES = 3
_ON_POLICY = ("rollout_size", "num_minibatches", "num_epochs", "num_steps")


def plan_replay(request: Request) -> Plan:
    """All sizes of an RRD or SAC run. An iteration is its rollout, a transition batch its minibatch."""
    sizes = _sizes(request)
    subsequences, rrd_batch = 0, 0
    repaired: tuple[str, ...] = ()
    if request.algo == "rrd":
        subsequences, rrd_batch, repaired = _subsequences(request, sizes["rrd_batch_size"], sizes["rrd_sample_size"])
    num_envs, steps = request.num_envs or 1, sizes["steps_per_iteration"]
    if steps % num_envs:
        legal = surrounding_multiples(steps, num_envs)
        raise RequestError(
            "rollout-split",
            f"steps_per_iteration {steps:,} is not a multiple of num_envs {num_envs:,}.",
            f"Nearest: steps_per_iteration {' or '.join(f'{size:,}' for size in legal)}.",
            [{"algo": request.algo, "num_envs": num_envs, "steps_per_iteration": size} for size in legal],
        )
    replay = Replay(
        **{**sizes, "rrd_batch_size": rrd_batch},
        num_subsequences=subsequences,
        slots_per_env=_slots(request, sizes["buffer_size"], num_envs, steps),
        updates_per_step=sizes["train_batches"] / steps,
    )
    asked = request.transition_batch_size is not None or request.minibatch_size != "auto"
    drafted = Plan(
        algo=request.algo,
        num_envs=num_envs,
        num_steps=steps // num_envs,
        gae_window=steps // num_envs,
        rollout_size=steps,
        minibatch_size=replay.transition_batch_size,
        minibatch_source="user" if asked else "auto",
        minibatch_reason="as asked" if asked else f"preset {_preset(request)}",
        num_minibatches=replay.train_batches,
        last_minibatch_size=replay.transition_batch_size,
        num_epochs=1,
        gradient_steps_per_update=replay.train_batches,
        sample_reuse=replay.updates_per_step * replay.transition_batch_size,
        chosen=tuple(name for name, size in sizes.items() if size and getattr(request, name) is None),
        repaired=repaired,
        replay=replay,
        memory=_memory(request, replay, num_envs),
        **_budget(request, replay),
    )
    return drafted.judged(findings(drafted, request))


def _sizes(request: Request) -> dict[str, int]:
    for name in _ON_POLICY:
        if getattr(request, name) is not None:
            raise RequestError(
                "contradiction",
                f"{name} is an on-policy size; {request.algo.upper()} draws from a replay.",
                "Use --steps-per-iteration, --train-batches, --transition-batch-size, --rrd-batch-size and "
                "--rrd-sample-size.",
            )
    for name in RRD_ONLY:
        if request.algo != "rrd" and getattr(request, name) is not None:
            raise RequestError("contradiction", f"{name} belongs to RRD, not to {request.algo}.", "Add --algo rrd.")
    if request.minibatch_size != "auto" and request.transition_batch_size not in (
        None,
        request.minibatch_size,
    ):
        raise RequestError(
            "contradiction",
            f"minibatch_size {request.minibatch_size} is not transition_batch_size {request.transition_batch_size}.",
            "They are the same thing here; leave minibatch_size out.",
        )
    preset = dict(PRESETS[_preset(request)])
    if request.algo == "sac":
        preset |= dict.fromkeys(RRD_ONLY, 0)
    if request.total_timesteps is not None:  # a place for every transition, and for an end behind each: never full
        preset["buffer_size"] = min(preset["buffer_size"], 2 * request.total_timesteps)
    asked = {name: getattr(request, name) for name in preset}
    if request.minibatch_size != "auto":
        asked["transition_batch_size"] = request.minibatch_size
    return {name: preset[name] if value is None else value for name, value in asked.items()}


def _preset(request: Request) -> str:
    pictures = request.obs_shape is not None and len(request.obs_shape) == PICTURE_AXES
    return request.preset or ("rrd-image" if pictures else "rrd-vector")


def _slots(request: Request, buffer_size: int, num_envs: int, steps: int) -> int:
    """Places of the replay for each environment; an iteration must fit, and for RRD an episode."""
    slots = buffer_size // num_envs
    least, why = 2 * steps // num_envs, f"an iteration of {steps:,} steps, each of which may end an episode"
    length = request.episode_length or 0
    if request.algo == "rrd" and length + 1 > least:
        least, why = length + 1, f"an episode of {length:,} steps and where it ends"
    if slots < least:
        raise RequestError(
            "replay-length",
            f"buffer_size {buffer_size:,} gives each of {num_envs:,} environments {slots:,} places; it needs "
            f"{least:,}, for {why}.",
            f"Use buffer_size {least * num_envs:,} or more"
            + (f", or num_envs {buffer_size // least:,} or less." if buffer_size >= least else "."),
            [{"algo": request.algo, "num_envs": num_envs, "buffer_size": least * num_envs}],
        )
    return slots


def _subsequences(request: Request, batch: int, sample: int) -> tuple[int, int, tuple[str, ...]]:
    """(num_subsequences, rrd_batch_size, repairs); a remainder or zero is an error with a fix."""
    count, rest = divmod(batch, sample)
    if count and not rest:
        return count, batch, ()
    legal = surrounding_multiples(batch, sample)
    if request.on_remainder == "fix":
        nearest = min(legal, key=lambda size: abs(size - batch))
        return (
            nearest // sample,
            nearest,
            (f"rrd_batch_size {batch:,} → {nearest:,}, a multiple of {sample:,}",),
        )
    smaller = [size for size in surrounding_divisors(batch, sample) if size <= sample]
    problem = (
        f"drops {rest:,} of {batch:,} timesteps"
        if count
        else "gives zero subsequences: the reward network never trains"
    )
    raise RequestError(
        "subsequences",
        f"rrd_batch_size {batch:,} / rrd_sample_size {sample:,} {problem}.",
        f"Use rrd_batch_size {' or '.join(f'{size:,}' for size in legal)}, or rrd_sample_size {smaller[-1]:,}.",
        [{"algo": "rrd", "rrd_batch_size": size, "rrd_sample_size": sample} for size in legal]
        + [{"algo": "rrd", "rrd_batch_size": batch, "rrd_sample_size": smaller[-1]}],
    )


def _budget(request: Request, replay: Replay) -> dict[str, Any]:
    """Iterations that fit the budget; gradient steps are made in those that end after the warm-up."""
    total = request.total_timesteps
    if total is None:
        return {}
    steps = replay.steps_per_iteration
    iterations = total // steps
    warm_up = replay.learning_starts // steps
    if iterations <= warm_up:
        least = (warm_up + 1) * steps
        raise RequestError(
            "zero-updates",
            f"total_timesteps {total:,} ends before the first gradient step: learning_starts is "
            f"{replay.learning_starts:,} and an iteration has {steps:,} steps.",
            f"The smallest budget that trains is {least:,}; or lower learning_starts.",
            [{"algo": request.algo, "total_timesteps": least}],
        )
    return {
        "total_timesteps": total,
        "actual_timesteps": iterations * steps,
        "num_updates": iterations,
        "gradient_steps": (iterations - warm_up) * replay.train_batches,
    }


def _memory(request: Request, replay: Replay, num_envs: int) -> Memory:
    def weigh(buffer_size: int) -> Memory:
        return replay_memory(
            request,
            num_envs=num_envs,
            buffer_size=buffer_size - buffer_size % num_envs,  # every environment has as many places
            transition_batch_size=replay.transition_batch_size,
            rrd_batch_size=replay.rrd_batch_size,
            train_batches=replay.train_batches,
        )

    memory, size = weigh(replay.buffer_size), replay.buffer_size
    while weigh(size).peak_bytes > memory.machine_bytes and size > 1:
        size //= 2
    fits = weigh(size).peak_bytes <= memory.machine_bytes
    check_memory(memory, {"buffer_size": size} if fits else {})
    return memory
