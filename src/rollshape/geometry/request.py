"""The planner's input: any subset of these fields. The dataclass is also the command line of `rollshape plan`."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_args

from rollshape.errors import RequestError
from rollshape.geometry.algorithms import Algo

OnRemainder = Literal["error", "warn", "fix"]
ActionKind = Literal["discrete", "continuous"]
RrdPreset = Literal["rrd-vector", "rrd-image", "rrd-paper"]

MOST_SAMPLES = 2**40
MOST_TIMESTEPS = 2**53


@dataclass(frozen=True, kw_only=True)
class RolloutSizes:
    """The sizes that a plan and a training run have in common; None means that the planner chooses."""

    algo: Annotated[Algo, "training algorithm"] = "ppo"
    num_envs: Annotated[int | None, "N, number of parallel environments"] = None
    num_steps: Annotated[int | None, "T, steps per environment in each rollout"] = None
    rollout_size: Annotated[int | None, "N·T, samples per rollout"] = None
    minibatch_size: Annotated[int | Literal["auto"], "M, samples per gradient step"] = "auto"
    num_minibatches: Annotated[int | None, "K, minibatches per epoch (alternative to M)"] = None
    num_epochs: Annotated[int | None, "passes over each rollout (default: 4 for PPO, 1 for A2C and REINFORCE)"] = None
    on_remainder: Annotated[OnRemainder, "what to do if M does not divide the rollout size"] = "error"

    gamma: Annotated[float, "discount factor γ"] = 0.99
    gae_lambda: Annotated[float, "λ of generalized advantage estimation"] = 0.95
    hidden_sizes: Annotated[tuple[int, ...], "sizes of the hidden layers"] = (64, 64)

    transition_batch_size: Annotated[int | None, "RRD, SAC: transitions per gradient step of policy and critics"] = None
    train_batches: Annotated[int | None, "RRD, SAC: gradient steps per iteration"] = None
    steps_per_iteration: Annotated[int | None, "RRD, SAC: environment steps per iteration"] = None
    rrd_batch_size: Annotated[int | None, "RRD: timesteps per gradient step of the reward network"] = None
    rrd_sample_size: Annotated[int | None, "RRD: timesteps per subsequence"] = None
    learning_starts: Annotated[int | None, "RRD, SAC: environment steps before the first gradient step"] = None
    buffer_size: Annotated[int | None, "RRD, SAC: observations that the replay buffer holds"] = None


@dataclass(frozen=True, kw_only=True)
class Request(RolloutSizes):
    """A partly specified plan; every field that is left out is derived or chosen."""

    total_timesteps: Annotated[int | None, "budget in environment steps (not vector steps)"] = None
    learning_rate: Annotated[float | None, "Adam learning rate to rescale (see --explain lr-minibatch)"] = None
    tuned_minibatch_size: Annotated[int | None, "minibatch size that the learning rate was tuned for"] = None

    obs_shape: Annotated[tuple[int, ...] | None, "shape of one observation, for the memory estimate"] = None
    obs_dtype: Annotated[str, "dtype of the observations, for example float32 or uint8"] = "float32"
    action_dim: Annotated[int | None, "action dimensions (continuous) or number of actions (discrete)"] = None
    action_kind: Annotated[ActionKind | None, "type of the action space"] = None
    episode_length: Annotated[int | None, "typical episode length in steps"] = None
    env_bytes: Annotated[int | None, "memory per environment in bytes"] = None
    host_envs: Annotated[bool, "environments run on this machine's CPU cores"] = False

    preset: Annotated[RrdPreset | None, "RRD, SAC: recommended sizes; other flags override them"] = None


def whole_number(name: str, value: Any, *, least: int = 1, most: int = MOST_SAMPLES) -> int:
    """Return the value as an int within [least, most], or raise a RequestError with the field and the range."""
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
            f"The nearest valid value is {nearest:,}.",
            [{name: nearest}],
        )
    return number


_COUNTS = (
    "num_envs", "num_steps", "rollout_size", "num_minibatches", "num_epochs", "tuned_minibatch_size",
    "action_dim", "episode_length", "transition_batch_size", "train_batches", "steps_per_iteration",
    "rrd_batch_size", "rrd_sample_size", "buffer_size",
)  # fmt: skip
_SHAPES = ("obs_shape", "hidden_sizes")
SUBSEQUENCE_SIZES = ("rrd_batch_size", "rrd_sample_size")
REPLAY_SIZES = (
    "transition_batch_size", "train_batches", "steps_per_iteration", "learning_starts", "buffer_size",
    *SUBSEQUENCE_SIZES,
)  # fmt: skip
_CHOICES = {
    "algo": get_args(Algo),
    "on_remainder": get_args(OnRemainder),
    "action_kind": (None, *get_args(ActionKind)),
    "preset": (None, *get_args(RrdPreset)),
}
_DEFAULTS = {field.name: field.default for field in fields(Request)}


def _unit_interval(name: str, value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
        raise RequestError("number-range", f"{name} must lie in [0, 1], got {value!r}.", f"Typical: {_DEFAULTS[name]}.")
    return float(value)


def validate(request: Request) -> Request:
    """Return the request with every number checked and converted; raise a RequestError for the first invalid one."""
    changes = {
        name: tuple(value) if name in _SHAPES and isinstance(value, Iterable) else value
        for name, value in vars(request).items()
        if value is not _DEFAULTS[name]
    }
    valid: dict[str, Any] = dict(changes)
    for name, value in changes.items():
        if name in _COUNTS and value is not None:
            valid[name] = whole_number(name, value)
        elif name in _CHOICES and value not in _CHOICES[name]:
            choices = ", ".join(str(choice) for choice in _CHOICES[name] if choice)
            raise RequestError("choice", f"{name} must be one of {choices}, got {value!r}.", f"Use one of {choices}.")
        elif name in ("gamma", "gae_lambda"):
            valid[name] = _unit_interval(name, value)
        elif name in _SHAPES:
            sizes = value if isinstance(value, tuple) else (value,)
            valid[name] = tuple(whole_number(f"{name}[{i}]", size) for i, size in enumerate(sizes))
    if request.minibatch_size != "auto":
        valid["minibatch_size"] = whole_number("minibatch_size", request.minibatch_size)
    if request.total_timesteps is not None:
        valid["total_timesteps"] = whole_number("total_timesteps", request.total_timesteps, most=MOST_TIMESTEPS)
    if request.env_bytes is not None:
        valid["env_bytes"] = whole_number("env_bytes", request.env_bytes, least=0, most=MOST_TIMESTEPS)
    if request.learning_starts is not None:
        valid["learning_starts"] = whole_number("learning_starts", request.learning_starts, least=0)
    rate = valid.get("learning_rate")
    if rate is not None and not (isinstance(rate, (int, float)) and 0 < rate < float("inf")):
        raise RequestError("number-range", f"learning_rate must be a positive number, got {rate!r}.", "Typical: 3e-4.")
    return Request(**valid)
