"""The sizes and settings of a run whose log is imported: from the config beside the log or in it, and from flags.

A config may leave keys out; then the library's defaults are used and listed as assumed. Without any config nothing is
assumed: every size must be given, except those that follow from the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.config import levels, lookup, score
from rollshape.geometry.dialects.reading import read
from rollshape.geometry.dialects.registry import DIALECTS, resolve
from rollshape.geometry.dialects.sources.folders import contains_config
from rollshape.geometry.dialects.sources.load import load
from rollshape.geometry.dialects.sources.source import NOT_CONSTANT
from rollshape.geometry.request import Request
from rollshape.geometry.solve import solve_shape
from rollshape.integrations.description import RunDescription, describe
from rollshape.integrations.logs.folders import RunFolder
from rollshape.integrations.logs.library import LibraryLog, find_setting
from rollshape.integrations.logs.series import LogFile

SIZES = ("num_envs", "num_steps", "minibatch_size", "num_minibatches", "num_epochs", "total_timesteps")
_ENV_KEYS = ("env_id", "env", "task_name", "env_name")
_NOT_ENVS = ("rlgpu",)  # rl_games' name for any environment of Isaac Gym
_STATE = ("num_timesteps", "start_time", "tensorboard_log", "verbose")  # of a saved model of SB3
_BUDGETS = {"total_timesteps", "num_updates", "vector_steps"}


@dataclass(frozen=True)
class ImportOptions:
    """What the user says about the runs: library, config, environment and sizes."""

    dialect: str | None = None
    config: str | None = None
    key: str | None = None
    env: str | None = None
    num_envs: int | None = None
    num_steps: int | None = None
    minibatch_size: int | None = None
    num_minibatches: int | None = None
    num_epochs: int | None = None
    total_timesteps: int | None = None

    def sizes(self) -> dict[str, int]:
        return {name: value for name in SIZES if (value := getattr(self, name)) is not None}


def describe_run(
    run: RunFolder, library: LibraryLog, log: LogFile, options: ImportOptions, env: str | None = None
) -> tuple[RunDescription, list[str]]:
    """Return the description of a run and notes on where it comes from. `env` is what monitor files say."""
    config, notes, file, key = _find_config(run, library, log, options)
    dialect = _dialect(run, library, log, config, options)
    if not config:
        config = _config_of_flags(dialect, library, log, options, str(run.home))
        notes.append("the sizes are those of the flags; there is no config")
    else:
        config = _fill_in(config, dialect, options, key, file)
    described = describe(
        config, dialect.name, env=options.env or env or _env_of(config), seed=_seed_of(config),
        num_envs=options.num_envs, key=key, file=file,
    )  # fmt: skip
    return described, notes


def _find_config(
    run: RunFolder, library: LibraryLog, log: LogFile, options: ImportOptions
) -> tuple[dict[str, Any], list[str], str | None, str | None]:
    """Return (values, notes, file, key) of the run's config; no values if there is none."""
    if options.config is not None:
        source = load(options.config, options.key)
        notes = [f"config: {options.config}", *source.notes]
        return _without_state(source.values), notes, options.config, source.key
    inside = library.read_config(log)
    if inside and any(score(inside, DIALECTS[name]) for name in library.dialects):
        return inside, ["config: in the log"], None, None
    if contains_config(run.home):
        source = load(str(run.home))
        return _without_state(source.values), [f"config: {note}" for note in source.notes[:1]], None, None
    models = sorted(run.home.glob("*.zip"))[:100]
    if models and library.name == "sb3":
        source = load(str(models[0]))
        return (
            _without_state(source.values),
            [f"config: read from {models[0].name}, one of {len(models)} models"],
            None,
            None,
        )
    return {}, [], None, None


def _without_state(values: dict[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters of a saved model of SB3, without the state of its training; other configs as is."""
    if "policy_class" not in values or "num_timesteps" not in values:
        return values
    return {
        name: value
        for name, value in values.items()
        if not name.startswith("_") and name not in _STATE and not str(value).startswith(NOT_CONSTANT)
        if value is None or isinstance(value, (bool, int, float, str))
    }


def _dialect(
    run: RunFolder, library: LibraryLog, log: LogFile, config: Mapping[str, Any], options: ImportOptions
) -> Dialect:
    """Return the dialect that was given, or the one of the library that the config and tags show."""
    if options.dialect is not None:
        return resolve(options.dialect, config or None)
    in_isaaclab = (run.home / "params" / "env.yaml").is_file() and f"isaaclab:{library.name}" in library.dialects
    name = f"isaaclab:{library.name}" if in_isaaclab else library.name
    if name == "cleanrl" and "local_num_envs" in config:
        name = "cleanrl_multigpu"
    if config:
        return resolve(name, config)
    is_a2c = "train/policy_loss" in log.scalars and "train/policy_gradient_loss" not in log.scalars
    return resolve("sb3:a2c" if name == "sb3" and is_a2c else name, None)


def _config_of_flags(
    dialect: Dialect, library: LibraryLog, log: LogFile, options: ImportOptions, where: str
) -> dict[str, Any]:
    """Return a config in the library's keys from the flags; a RequestError that names what is missing."""
    keys = {key.concept: key for key in dialect.shape_keys}
    given = options.sizes()
    rollout = _logged_rollout_size(library, log)
    if rollout is not None and ("num_envs" in given) != ("num_steps" in given):
        request = Request(rollout_size=rollout, num_envs=given.get("num_envs"), num_steps=given.get("num_steps"))
        shape = solve_shape(request)
        given |= {"num_envs": shape.num_envs, "num_steps": shape.num_steps}
    _refuse_unknown(dialect, keys, given)
    minibatch = "num_minibatches" if dialect.uses_count else "minibatch_size"
    needed = [name for name in ("num_envs", "num_steps", minibatch, "num_epochs") if name in keys]
    missing = [name for name in needed if name not in given]
    if missing:
        flags = ", ".join(f"--{name.replace('_', '-')} ({keys[name].name})" for name in missing)
        hint = f" The log shows that a rollout has {rollout:,} samples." if rollout is not None else ""
        raise RequestError(
            "log-sizes",
            f"There is no config of {library.name} beside the log in {where}, so these sizes are unknown: "
            f"{', '.join(missing)}.{hint}",
            f"Give {flags}, or --config FILE in the library's own format.",
        )
    return {keys[name].name: value for name, value in given.items() if name in keys}


def _logged_rollout_size(library: LibraryLog, log: LogFile) -> int | None:
    """Return the samples per rollout that SB3's progress.csv shows: total_timesteps over iterations, in every row."""
    iterations = log.scalars.get("time/iterations")
    if library.name != "sb3" or iterations is None:
        return None
    ratios = {step / count for step, _, count in iterations if count > 0}
    [size] = ratios if len(ratios) == 1 else [0.5]
    return int(size) if size == int(size) else None


def _refuse_unknown(dialect: Dialect, keys: Mapping[str, Any], given: Mapping[str, int]) -> None:
    for name, value in given.items():
        if name in keys or (name == "total_timesteps" and _BUDGETS & set(keys)):
            continue
        other = {"minibatch_size": "num_minibatches", "num_minibatches": "minibatch_size"}.get(name, "")
        fix = f"Use --{other.replace('_', '-')} ({keys[other].name})." if other in keys else "Leave it out."
        raise RequestError("log-sizes", f"A run of {dialect.library} has no {name} ({value:,} is given).", fix)


def _fill_in(
    config: dict[str, Any], dialect: Dialect, options: ImportOptions, key: str | None, file: str | None
) -> dict[str, Any]:
    """Return the config with the sizes of flags that it does not contain; one that it contains must be the same."""
    given = {name: value for name, value in options.sizes().items() if name != "num_envs"}
    keys = {entry.concept: entry for entry in dialect.shape_keys}
    if not given:
        return config
    _refuse_unknown(dialect, keys, given)
    level = read(config, dialect, num_envs=options.num_envs, key=key, candidates=DIALECTS, file=file).reading.level
    node = next(values for path, values in levels(config) if path == level)
    more = {}
    for name, value in given.items():
        hit = lookup(node, keys[name]) if name in keys else None
        if hit is not None and hit[1] is not None and hit[1] != value:
            raise RequestError(
                "log-sizes",
                f"{name} is {value:,} by the flag, but {'.'.join((*level, *hit[0]))} of the config is {hit[1]}.",
                "Leave the flag out, or give the config of this run.",
            )
        if name in keys:
            more[keys[name].name] = value
    return _with_values(config, level, more)


def _with_values(values: Mapping[str, Any], level: tuple[str, ...], more: Mapping[str, Any]) -> dict[str, Any]:
    if not level:
        return {**values, **more}
    return {**values, level[0]: _with_values(values[level[0]], level[1:], more)}


def _env_of(config: Mapping[str, Any]) -> str | None:
    for name in _ENV_KEYS:
        value = find_setting(config, name)
        if isinstance(value, str) and value and value not in _NOT_ENVS and "${" not in value and len(value) < 200:
            return value
    return None


def _seed_of(config: Mapping[str, Any]) -> int | None:
    seed = find_setting(config, "seed")
    return seed if isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**31 else None
