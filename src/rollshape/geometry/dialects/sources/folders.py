"""A run folder as a config: the files in which a library saves what it trained with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.sources.source import ConfigSource

_CONFIGS = (".hydra/config.yaml", "config.yaml", "config.yml", "config.json", "cfg.json", "agent.yaml")
_EXPECTED = "config.yml + args.yml of rl-zoo, params/agent.yaml + params/env.yaml of Isaac Lab, config.yaml, model.zip"
Load = Callable[[str], ConfigSource]


def parse(folder: FilePath, load: Load) -> ConfigSource:
    """Read the config of a run folder; `load` reads a single file."""
    for place in (folder, *_only_subfolder(folder)):
        source = _isaaclab(place, load) or _zoo(place, load)
        if source is not None:
            return source
        for name in _CONFIGS:
            if (place / name).is_file():
                return _of_folder(place, load(str(place / name)))
    models = sorted(folder.glob("*.zip"))
    if len(models) == 1:
        return _of_folder(folder, load(str(models[0])))
    names = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
    raise RequestError(
        "file", f"{folder} is a folder without a config that I know (it contains {names}).",
        f"Give the config file, or a run folder with {_EXPECTED}.",
    )  # fmt: skip


def contains_config(folder: FilePath) -> bool:
    """Return whether a folder holds the files of a config that `parse` reads, without a saved model."""
    for place in (folder, *_only_subfolder(folder)):
        params = place / "params" if (place / "params").is_dir() else place
        names = (*_CONFIGS, *(name for name in ("config.yml",) if (place / "args.yml").is_file()))
        if (params / "agent.yaml").is_file() or any((place / name).is_file() for name in names):
            return True
    return False


def _only_subfolder(folder: FilePath) -> list[FilePath]:
    """Return the folder inside: rl-zoo writes `CartPole-v1_1/CartPole-v1/config.yml`."""
    inner = [path for path in folder.iterdir() if path.is_dir() and (path / "config.yml").is_file()]
    return inner if len(inner) == 1 else []


def _of_folder(
    folder: FilePath, source: ConfigSource, more: Mapping[str, Any] | None = None, *notes: str
) -> ConfigSource:
    values = {**source.values, **(more or {})}
    return ConfigSource(
        "a run folder", str(folder), source.text, values, (f"read from {source.name}", *source.notes, *notes)
    )


def _isaaclab(folder: FilePath, load: Load) -> ConfigSource | None:
    place = folder / "params" if (folder / "params").is_dir() else folder
    if not ((place / "agent.yaml").is_file() and (place / "env.yaml").is_file()):
        return None
    env = load(str(place / "env.yaml")).values
    scene = env.get("scene")
    number = scene.get("num_envs") if isinstance(scene, Mapping) else None
    agent = load(str(place / "agent.yaml"))
    if not isinstance(number, int):
        return _of_folder(folder, agent)
    return _of_folder(folder, agent, {"num_envs": number}, f"num_envs {number} is scene.num_envs of env.yaml")


def _zoo(folder: FilePath, load: Load) -> ConfigSource | None:
    if not ((folder / "config.yml").is_file() and (folder / "args.yml").is_file()):
        return None
    config, args = load(str(folder / "config.yml")), load(str(folder / "args.yml")).values
    more: dict[str, Any] = {name: args[name] for name in ("algo", "env") if name in args}
    steps = args.get("n_timesteps")
    if isinstance(steps, (int, float)) and steps > 0:  # -n of the command line overrides the config
        more["n_timesteps"] = steps
    return _of_folder(folder, config, more)
