"""What a user may ask of the planner: any subset of these fields. It is also the command line of `plan`."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from rollshape.errors import RequestError

Algo = Literal["ppo", "a2c", "reinforce", "rrd", "sac"]
OnRemainder = Literal["error", "warn", "fix"]
ActionKind = Literal["discrete", "continuous"]
RrdPreset = Literal["rrd-vector", "rrd-image", "rrd-paper"]

MOST_SAMPLES = 2**40
MOST_TIMESTEPS = 2**53


@dataclass(frozen=True, kw_only=True)
class Request:
    """A rollout shape, as much of it as is known; every field left out is chosen or derived."""

    algo: Annotated[Algo, "the algorithm"] = "ppo"
    num_envs: Annotated[int | None, "N, parallel environments"] = None
    num_steps: Annotated[int | None, "T, steps of each environment in a rollout"] = None
    rollout_size: Annotated[int | None, "N·T, samples collected before an update"] = None
    minibatch_size: Annotated[int | Literal["auto"], "M, samples in a gradient step"] = "auto"
    num_minibatches: Annotated[int | None, "K, gradient steps in an epoch (instead of M)"] = None
    num_epochs: Annotated[int | None, "passes over a rollout (PPO: 4; A2C and REINFORCE: 1)"] = None
    total_timesteps: Annotated[int | None, "budget in environment steps, never vector steps"] = None
    on_remainder: Annotated[OnRemainder, "what to do when the rollout does not divide"] = "error"

    gamma: Annotated[float, "discount γ"] = 0.99
    gae_lambda: Annotated[float, "GAE's λ"] = 0.95
    learning_rate: Annotated[float | None, "Adam's step size, to rescale it (see --explain lr-minibatch)"] = None
    tuned_minibatch_size: Annotated[int | None, "the minibatch size that learning rate was tuned at"] = None

    obs_shape: Annotated[tuple[int, ...] | None, "shape of one observation, for the memory plan"] = None
    obs_dtype: Annotated[str, "its dtype, such as float32 or uint8"] = "float32"
    action_dim: Annotated[int | None, "action dimensions (continuous) or choices (discrete)"] = None
    action_kind: Annotated[ActionKind | None, "kind of action"] = None
    episode_length: Annotated[int | None, "steps of a typical episode"] = None
    hidden_sizes: Annotated[tuple[int, ...], "widths of the hidden layers"] = (64, 64)
    env_bytes: Annotated[int | None, "memory that one environment takes, in bytes"] = None
    host_envs: Annotated[bool, "the environments run on this machine's CPU cores"] = False

    preset: Annotated[RrdPreset | None, "RRD, SAC: recommended settings; flags override them"] = None
    transition_batch_size: Annotated[int | None, "RRD, SAC: transitions in a Q and policy step"] = None
    train_batches: Annotated[int | None, "RRD, SAC: gradient steps in an iteration"] = None
    steps_per_iteration: Annotated[int | None, "RRD, SAC: environment steps in an iteration"] = None
    rrd_batch_size: Annotated[int | None, "RRD: timesteps in a reward-network step"] = None
    rrd_sample_size: Annotated[int | None, "RRD: timesteps in one subsequence"] = None
    learning_starts: Annotated[int | None, "RRD, SAC: environment steps before the first gradient step"] = None
    buffer_size: Annotated[int | None, "RRD, SAC: observations that the replay holds, one for a transition"] = None


def whole_number(name: str, value: Any, *, least: int = 1, most: int = MOST_SAMPLES) -> int:
    """The value as an int within [least, most], or a RequestError that names the field and the range."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = int(value) if isinstance(value, float) and value == value // 1 else operator.index(value)
    except (TypeError, ValueError, OverflowError):
        raise RequestError(
            "whole-number", f"{name} must be a whole number, got {value!r}.", f"Give {name} as an integer."
        ) from None
    if not least <= number <= most:
        bound = f"at least {least:,}" if number < least else f"at most {most:,}"
        nearest = least if number < least else most
        raise RequestError(
            "whole-number",
            f"{name} must be {bound}, got {number:,}.",
            f"The nearest legal value is {nearest:,}.",
            [{name: nearest}],
        )
    return number


_COUNTS = (
    "num_envs", "num_steps", "rollout_size", "num_minibatches", "num_epochs", "tuned_minibatch_size",
    "action_dim", "episode_length", "transition_batch_size", "train_batches", "steps_per_iteration",
    "rrd_batch_size", "rrd_sample_size", "buffer_size",
)  # fmt: skip
_SHAPES = ("obs_shape", "hidden_sizes")
RRD_ONLY = ("rrd_batch_size", "rrd_sample_size")
REPLAY_ONLY = (
    "preset", "transition_batch_size", "train_batches", "steps_per_iteration", "learning_starts", "buffer_size",
    *RRD_ONLY,
)  # fmt: skip
_CHOICES = {
    "algo": ("ppo", "a2c", "reinforce", "rrd", "sac"),
    "on_remainder": ("error", "warn", "fix"),
    "action_kind": (None, "discrete", "continuous"),
    "preset": (None, "rrd-vector", "rrd-image", "rrd-paper"),
}
_DEFAULTS = {name: field.default for name, field in Request.__dataclass_fields__.items()}


def _unit_interval(name: str, value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
        raise RequestError("number-range", f"{name} must lie in [0, 1], got {value!r}.", f"Typical: {_DEFAULTS[name]}.")
    return float(value)


def checked(request: Request) -> Request:
    """The request with every number checked; raises RequestError for the first that is wrong."""
    given = {
        name: tuple(value) if name in _SHAPES and isinstance(value, Iterable) else value
        for name, value in vars(request).items()
        if value is not _DEFAULTS[name]
    }
    clean: dict[str, Any] = dict(given)
    for name, value in given.items():
        if name in _COUNTS and value is not None:
            clean[name] = whole_number(name, value)
        elif name in _CHOICES and value not in _CHOICES[name]:
            known = ", ".join(str(choice) for choice in _CHOICES[name] if choice)
            raise RequestError("choice", f"{name} must be one of {known}, got {value!r}.", f"Choose one of {known}.")
        elif name in ("gamma", "gae_lambda"):
            clean[name] = _unit_interval(name, value)
        elif name in _SHAPES:
            sizes = value if isinstance(value, tuple) else (value,)
            clean[name] = tuple(whole_number(f"{name}[{i}]", size) for i, size in enumerate(sizes))
    if request.minibatch_size != "auto":
        clean["minibatch_size"] = whole_number("minibatch_size", request.minibatch_size)
    if request.total_timesteps is not None:
        clean["total_timesteps"] = whole_number("total_timesteps", request.total_timesteps, most=MOST_TIMESTEPS)
    if request.env_bytes is not None:
        clean["env_bytes"] = whole_number("env_bytes", request.env_bytes, least=0, most=MOST_TIMESTEPS)
    if request.learning_starts is not None:
        clean["learning_starts"] = whole_number("learning_starts", request.learning_starts, least=0)
    rate = clean.get("learning_rate")
    if rate is not None and not (isinstance(rate, (int, float)) and 0 < rate < float("inf")):
        raise RequestError("number-range", f"learning_rate must be a positive number, got {rate!r}.", "Typical: 3e-4.")
    return Request(**clean)
