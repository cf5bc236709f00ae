"""Plans with a replay buffer: SAC, and SAC with randomized return decomposition (RRD)."""

from __future__ import annotations

from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.algorithms import RULES, SUBSEQUENCE_ALGORITHMS
from rollshape.geometry.divisors import surrounding_divisors, surrounding_multiples
from rollshape.geometry.memory import Memory, check_memory, fits, replay_memory
from rollshape.geometry.network import is_image
from rollshape.geometry.plan import Plan, ReplayPlan
from rollshape.geometry.request import SUBSEQUENCE_SIZES, Request, RrdPreset
from rollshape.geometry.rules import check_rules
from rollshape.geometry.values import MOST_SAMPLES, MOST_TIMESTEPS

_PAPER = {"steps_per_iteration": 100, "learning_starts": 10_000, "buffer_size": 1_000_000}
PRESETS: dict[RrdPreset, dict[str, int]] = {
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
_ON_POLICY_SIZES = ("rollout_size", "num_minibatches", "num_epochs", "num_steps")


def plan_replay(request: Request) -> Plan:
    """Plan a run with a replay buffer. An iteration takes the place of the rollout, a transition batch that of M."""
    sizes = _sizes(request)
    subsequences, rrd_batch = 0, 0
    repaired: tuple[str, ...] = ()
    if RULES[request.algo].uses_subsequences:
        subsequences, rrd_batch, repaired = _subsequences(request, sizes["rrd_batch_size"], sizes["rrd_sample_size"])
    num_envs, steps = request.num_envs or 1, sizes["steps_per_iteration"]
    if steps % num_envs:
        multiples = _legal_multiples(steps, num_envs)
        raise RequestError(
            "rollout-split",
            f"steps_per_iteration {steps:,} is not a multiple of num_envs {num_envs:,}.",
            f"Nearest: steps_per_iteration {' or '.join(f'{size:,}' for size in multiples)}.",
            [{"algo": request.algo, "num_envs": num_envs, "steps_per_iteration": size} for size in multiples],
        )
    replay = ReplayPlan(
        **{**sizes, "rrd_batch_size": rrd_batch},
        num_subsequences=subsequences,
        slots_per_env=_slots_per_env(request, sizes["buffer_size"], num_envs, steps),
        updates_per_step=sizes["train_batches"] / steps,
    )
    user_size = request.transition_batch_size is not None or request.minibatch_size != "auto"
    result = Plan(
        algo=request.algo,
        num_envs=num_envs,
        num_steps=steps // num_envs,
        gae_window=steps // num_envs,
        rollout_size=steps,
        minibatch_size=replay.transition_batch_size,
        minibatch_source="user" if user_size else "auto",
        minibatch_reason="requested" if user_size else f"preset {_preset(request)}",
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
    return result.attach_findings(check_rules(result, request))


def _sizes(request: Request) -> dict[str, int]:
    """Return the requested sizes, completed from the preset."""
    _check_fields(request)
    preset = dict(PRESETS[_preset(request)])
    if not RULES[request.algo].uses_subsequences:
        preset |= dict.fromkeys(SUBSEQUENCE_SIZES, 0)
    if request.total_timesteps is not None:  # one slot per transition and one per end of an episode: never full
        preset["buffer_size"] = min(preset["buffer_size"], 2 * request.total_timesteps)
    requested = {name: getattr(request, name) for name in preset}
    if request.minibatch_size != "auto":
        requested["transition_batch_size"] = request.minibatch_size
    return {name: preset[name] if value is None else value for name, value in requested.items()}


def _check_fields(request: Request) -> None:
    """Raise a RequestError if a requested size does not belong to the algorithm."""
    for name in _ON_POLICY_SIZES:
        if getattr(request, name) is not None:
            raise RequestError(
                "contradiction",
                f"{name} is an on-policy size; {request.algo.upper()} samples from a replay buffer.",
                "Use --steps-per-iteration, --train-batches, --transition-batch-size, --rrd-batch-size and "
                "--rrd-sample-size.",
            )
    for name in SUBSEQUENCE_SIZES:
        if not RULES[request.algo].uses_subsequences and getattr(request, name) is not None:
            raise RequestError(
                "contradiction",
                f"{name} belongs to RRD, not to {request.algo}.",
                f"Leave it out, or use --algo {' or --algo '.join(SUBSEQUENCE_ALGORITHMS)}.",
            )
    if request.minibatch_size != "auto" and request.transition_batch_size not in (None, request.minibatch_size):
        raise RequestError(
            "contradiction",
            f"minibatch_size {request.minibatch_size} differs from transition_batch_size "
            f"{request.transition_batch_size}.",
            f"For {request.algo} both mean the same; leave minibatch_size out.",
        )


def _preset(request: Request) -> RrdPreset:
    return request.preset or ("rrd-image" if is_image(request) else "rrd-vector")


def _legal_multiples(size: int, step: int) -> tuple[int, ...]:
    return tuple(multiple for multiple in surrounding_multiples(size, step) if multiple <= MOST_SAMPLES)


def _slots_per_env(request: Request, buffer_size: int, num_envs: int, steps: int) -> int:
    """Return the replay slots per environment; they must hold an iteration and, for RRD, an episode."""
    slots = buffer_size // num_envs
    least, content = 2 * steps // num_envs, f"an iteration of {steps:,} steps, each of which may end an episode"
    length = request.episode_length or 0
    if RULES[request.algo].uses_subsequences and length + 1 > least:
        least, content = length + 1, f"an episode of {length:,} steps and its final observation"
    if slots < least:
        fix, sizes = _larger_buffer(buffer_size, num_envs, steps, least, length)
        raise RequestError(
            "replay-length",
            f"buffer_size {buffer_size:,} gives each of {num_envs:,} environments {slots:,} slots; "
            f"{least:,} are needed to hold {content}.",
            fix,
            [{"algo": request.algo, **sizes}] if sizes else (),
        )
    return slots


def _larger_buffer(buffer_size: int, num_envs: int, steps: int, least: int, length: int) -> tuple[str, dict[str, int]]:
    """Return the advice for a buffer that is too small, and sizes that fit: one environment, if no buffer is enough."""
    if least * num_envs <= MOST_SAMPLES:
        fewer = f", or num_envs {buffer_size // least:,} or less" if buffer_size >= least else ""
        fix = f"Use buffer_size {least * num_envs:,} or more{fewer}."
        return fix, {"num_envs": num_envs, "buffer_size": least * num_envs}
    steps = min(steps, MOST_SAMPLES // 2)
    sizes = {"num_envs": 1, "steps_per_iteration": steps, "buffer_size": max(2 * steps, length + 1)}
    fix = f"No buffer of at most {MOST_SAMPLES:,} is enough; use fewer environments and shorter iterations."
    return fix, sizes if sizes["buffer_size"] <= MOST_SAMPLES else {}


def _subsequences(request: Request, batch: int, sample: int) -> tuple[int, int, tuple[str, ...]]:
    """Return (num_subsequences, rrd_batch_size, repairs); a remainder or zero is an error with a fix."""
    count, rest = divmod(batch, sample)
    if count and not rest:
        return count, batch, ()
    multiples = _legal_multiples(batch, sample)
    if request.on_remainder == "fix":
        nearest = min(multiples, key=lambda size: abs(size - batch))
        return nearest // sample, nearest, (f"rrd_batch_size {batch:,} → {nearest:,}, a multiple of {sample:,}",)
    divisor = [size for size in surrounding_divisors(batch, sample) if size <= sample][-1]
    problem = (
        f"drops {rest:,} of {batch:,} timesteps"
        if count
        else "gives zero subsequences: the reward network would never be trained"
    )
    raise RequestError(
        "subsequences",
        f"rrd_batch_size {batch:,} / rrd_sample_size {sample:,} {problem}.",
        f"Use rrd_batch_size {' or '.join(f'{size:,}' for size in multiples)}, or rrd_sample_size {divisor:,}.",
        [{"algo": request.algo, "rrd_batch_size": size, "rrd_sample_size": sample} for size in multiples]
        + [{"algo": request.algo, "rrd_batch_size": batch, "rrd_sample_size": divisor}],
    )


def _budget(request: Request, replay: ReplayPlan) -> dict[str, Any]:
    """Return the iterations within the budget; only those that end after the warm-up take gradient steps."""
    total = request.total_timesteps
    if total is None:
        return {}
    steps = replay.steps_per_iteration
    iterations = total // steps
    warm_up = replay.learning_starts // steps
    if iterations <= warm_up:
        least, sizes = (warm_up + 1) * steps, {}
        if least > MOST_TIMESTEPS:
            least, sizes = max(total, steps), {"learning_starts": 0}
        raise RequestError(
            "zero-updates",
            f"total_timesteps {total:,} ends before the first gradient step: learning_starts is "
            f"{replay.learning_starts:,} and an iteration has {steps:,} steps.",
            f"Use total_timesteps {least:,} or more, {'and' if sizes else 'or'} a smaller learning_starts.",
            [{"algo": request.algo, "total_timesteps": least, **sizes}],
        )
    return {
        "total_timesteps": total,
        "actual_timesteps": iterations * steps,
        "num_updates": iterations,
        "gradient_steps": (iterations - warm_up) * replay.train_batches,
    }


def _memory(request: Request, replay: ReplayPlan, num_envs: int) -> Memory:
    """Estimate the memory; more than the machine has is an error that offers a smaller buffer, or fewer batches."""

    def estimate(buffer_size: int, train_batches: int) -> Memory:
        return replay_memory(
            request,
            num_envs=num_envs,
            rollout_size=replay.steps_per_iteration,
            buffer_size=buffer_size - buffer_size % num_envs,  # every environment has equally many slots
            transition_batch_size=replay.transition_batch_size,
            rrd_batch_size=replay.rrd_batch_size,
            train_batches=train_batches,
        )

    size, batches = replay.buffer_size, replay.train_batches
    memory = smaller = estimate(size, batches)
    while not fits(smaller) and size * batches > 1:
        halve_batches = batches > 1 and (smaller.copy_bytes > smaller.replay_bytes or size == 1)
        size, batches = (size, batches // 2) if halve_batches else (size // 2, batches)
        smaller = estimate(size, batches)
    sizes = {"buffer_size": size} | ({"train_batches": batches} if batches < replay.train_batches else {})
    check_memory(memory, sizes if fits(smaller) else {})
    return memory
