"""Changing single settings of a config: which keys of its library change, from which value to which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.reading import read
from rollshape.geometry.dialects.recipe import HYPERPARAMETERS, Recipe
from rollshape.geometry.dialects.registry import DIALECTS, resolve
from rollshape.geometry.dialects.rescale import Change
from rollshape.geometry.dialects.sharing import emit_per_rank

SIZES = ("num_envs", "num_steps", "minibatch_size", "num_epochs", "total_timesteps")
# What is done outside the keys of a dialect, by the first part of its name.
WORDS: Mapping[str, Mapping[str, str]] = {
    "normalize_observations": {
        "rollshape": "--normalize-observations",
        "sb3": "wrap the environments in VecNormalize(norm_obs=True)",
        "sbx": "wrap the environments in VecNormalize(norm_obs=True)",
        "cleanrl": "add gym.wrappers.NormalizeObservation to make_env",
        "rl_games": "normalize_input: True",
        "rsl_rl": "obs_normalization: True (empirical_normalization: True before 3.0)",
        "skrl": "agent.observation_preprocessor: RunningStandardScaler (state_preprocessor before 2.0)",
    },
    "normalize_rewards": {
        "rollshape": "--normalize-rewards",
        "sb3": "wrap the environments in VecNormalize(norm_reward=True)",
        "sbx": "wrap the environments in VecNormalize(norm_reward=True)",
        "cleanrl": "add gym.wrappers.NormalizeReward to make_env",
        "rl_games": "reward_shaper: scale_value so that returns are of order 1, and normalize_value: True",
        "rsl_rl": "scale the rewards of the environment so that returns are of order 1",
        "skrl": "agent.rewards_shaper so that returns are of order 1, and agent.value_preprocessor: "
        "RunningStandardScaler",
    },
    "stagger": {"rollshape": "--stagger burn-in"},
}
ANY_LIBRARY = {
    "normalize_observations": "normalize the observations",
    "normalize_rewards": "scale the rewards so that returns are of order 1",
    "stagger": "start every environment at a random step of its first episode",
}


def change_settings(
    dialect: str, config: Mapping[str, Any], num_envs: int | None, wanted: Mapping[str, Any]
) -> list[Change]:
    """Return the keys that change if settings (by concept) get new values; what is no key is put into words.

    Sizes that follow change too: a shorter rollout may need smaller minibatches, or another number of them. A
    RequestError if the config cannot be read.
    """
    library = resolve(dialect, config)
    before = _read(library, config, num_envs)
    changes = [*_size_changes(library, before, wanted), *_hyper_changes(library, before, wanted)]
    return changes + [
        Change(concept, None, value, WORDS.get(concept, {}).get(library.name.partition(":")[0], ANY_LIBRARY[concept]))
        for concept, value in wanted.items()
        if concept in ANY_LIBRARY
    ]


def _read(library: Dialect, config: Mapping[str, Any], num_envs: int | None) -> Recipe:
    try:
        return read(config, library, candidates=DIALECTS).recipe
    except RequestError as error:
        if error.rule != "missing-key" or num_envs is None:
            raise
        return read(config, library, num_envs=num_envs, candidates=DIALECTS).recipe


def _size_changes(library: Dialect, before: Recipe, wanted: Mapping[str, Any]) -> Iterator[Change]:
    sizes = {name: wanted[name] for name in SIZES if name in wanted}
    if not sizes:
        return
    after = replace(before, **sizes)
    after = replace(
        after,
        gae_window=min(before.gae_window, after.num_steps) if after.num_steps < before.num_steps else after.num_steps,
        minibatch_size=min(after.minibatch_size, after.rollout_size),
        num_minibatches=max(1, after.rollout_size // min(after.minibatch_size, after.rollout_size)),
    )
    if after.total_timesteps is not None:
        after = replace(after, num_updates=max(1, library.updates(after.total_timesteps, after.rollout_size)))
    old, new = emit_per_rank(library, before), emit_per_rank(library, library.adapt(after))
    for key in library.shape_keys:
        is_same_budget = key.concept in ("total_timesteps", "vector_steps") and "total_timesteps" not in wanted
        values = old.get(key.concept), new.get(key.concept)
        if None not in values and values[0] != values[1] and not is_same_budget:
            yield Change(key.name, *values, "")


def _hyper_changes(library: Dialect, before: Recipe, wanted: Mapping[str, Any]) -> Iterator[Change]:
    hyper = {name: value for name, value in wanted.items() if name in HYPERPARAMETERS}
    if not hyper:
        return
    old, new = library.emit_hyper(before.hyper), library.emit_hyper({**before.hyper, **hyper})
    keys = {key.name: key.concept for key in library.hyper_keys}
    for name, value in new.items():
        if keys.get(name) in hyper and value != old.get(name):
            yield Change(name, old.get(name) if keys[name] in before.hyper else None, value, "")


def shorten(num_envs: int, num_steps: int, factor: float) -> dict[str, int]:
    """Return sizes that make the rollout about `factor` times smaller: fewer steps, and fewer environments below 16."""
    steps = _power_of_two(num_steps / factor)
    if steps >= min(16, num_steps):
        return {"num_steps": steps}
    steps = min(16, num_steps)
    return {"num_steps": steps, "num_envs": _power_of_two(num_envs * num_steps / (factor * steps))}


def _power_of_two(size: float) -> int:
    """Return the largest power of two that is not larger than a size, at least 1."""
    return 1 << max(0, int(size).bit_length() - 1)
