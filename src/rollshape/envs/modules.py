"""Modules that environments are in: installed ones, or files of the current folder. Does not import JAX."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from rollshape.envs.failures import creation_errors
from rollshape.errors import RequestError, closest_name

BACKENDS = ("gymnasium", "envpool", "gymnax", "tabular", "brax", "playground", "python")


def split_module(env_id: str) -> tuple[str | None, str]:
    """Return (module, name) of `module:name`, also after `gymnasium:`; the module of any other id is None."""
    backend, _, rest = env_id.partition(":")
    module, _, name = (rest if backend in BACKENDS else env_id).rpartition(":")
    return module or None, name


def load_module(module: str, env_id: str) -> ModuleType:
    """Import the module of an environment; one that is not installed is looked for in the current folder.

    The current folder is searched last, so that no file in it hides an installed package.
    """
    with creation_errors(env_id):
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            package = module.partition(".")[0]
            if error.name != package or local_file(package) is None or os.getcwd() in sys.path:
                raise _not_found(env_id, module, error) from None
        sys.path.append(os.getcwd())
        importlib.invalidate_caches()
        return import_module(module)


def local_file(package: str) -> Path | None:
    """Return the file or folder of the current folder that has this module's name."""
    folder = Path.cwd() / package
    return next(
        (path for path in (folder.with_suffix(".py"), folder) if package.isidentifier() and path.exists()), None
    )


def _not_found(env_id: str, module: str, error: ModuleNotFoundError) -> RequestError:
    if error.name not in (module, module.partition(".")[0]):
        return RequestError("environment", f"Cannot create {env_id}: {error}.", "Install what the module needs.")
    near = closest_name(env_id.partition(":")[0], BACKENDS, cutoff=0.75)
    hint = f"Did you mean {near}:{env_id.partition(':')[2]}? " if near else ""
    return RequestError(
        "environment",
        f"Cannot create {env_id}: there is no module {module}, neither installed nor in the current folder.",
        f"{hint}Check the id; modules are also found in the folder in which the command is started.",
    )
