"""Which modules a run directory may cause to be imported: importing executes them, and a directory may be anyone's."""

from __future__ import annotations

import importlib.util
import site
import sys
import sysconfig
from pathlib import Path

from rollshape.envs.modules import local_file, split_module
from rollshape.errors import RequestError

TRUST = "If you trust this code, add --trust (Python: trust=True)."


def check_module(env_id: str, source: str, fix: str = TRUST) -> None:
    """Raise a RequestError if the environment of `source` is in a module that is neither installed nor imported."""
    module, _ = split_module(env_id)
    if module is None:
        return
    package = module.partition(".")[0]
    if (package in sys.modules and package != "__main__") or _is_installed(package):
        return
    raise RequestError(
        "trust",
        f"{source} names the environment {env_id}: opening it would import the module {module}, which executes its "
        f"code ({_origin(package)}). It is not an installed package.",
        fix,
    )


def _is_installed(package: str) -> bool:
    """Return whether a top-level package is in a folder of installed packages; looking it up imports nothing."""
    places = _locations(package)
    return bool(places) and all(any(place.is_relative_to(folder) for folder in _folders()) for place in places)


def _locations(package: str) -> list[Path]:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    if spec is None:
        place = local_file(package)  # where it would be imported from
        return [place.resolve()] if place else []
    places = list(spec.submodule_search_locations or []) or [spec.origin or ""]
    return [Path(place).resolve() for place in places]


def _folders() -> list[Path]:
    paths = sysconfig.get_paths()
    folders = [paths["purelib"], paths["platlib"], *site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return [Path(folder).resolve() for folder in folders]


def _origin(package: str) -> str:
    return ", ".join(map(str, _locations(package))) or "not found"
