"""Studies that come with Rollshape: files like a user's own, in `library/`."""

from __future__ import annotations

import difflib
from importlib.util import find_spec
from pathlib import Path

from rollshape.errors import RequestError
from rollshape.studies.study import Study, read_study

LIBRARY = Path(__file__).parent / "library"
WITHOUT_ENVPOOL = "Pendulum-v1"  # continuous control that needs no extra


def names() -> list[str]:
    return sorted(file.stem for file in LIBRARY.glob("*.yaml"))


def builtin(name: str) -> Study:
    """A built-in study; one of EnvPool's environments gives way to a functional one where the extra is absent."""
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        known = ", ".join(names())
        raise RequestError("choice", f"There is no study {name!r}.", f"{hint}Known: {known}; or give a .yaml file.")
    study = read_study(str(LIBRARY / f"{name}.yaml"))
    needs_extra = str(study.fixed.get("env", "")).startswith("envpool:") and find_spec("envpool") is None
    return study.with_env(WITHOUT_ENVPOOL) if needs_extra else study
