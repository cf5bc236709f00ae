"""The studies that come with Rollshape: study files in `library/`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rollshape.errors import RequestError, did_you_mean
from rollshape.studies.study import Study
from rollshape.studies.study_file import read_study

LIBRARY = Path(__file__).parent / "library"
ENVPOOL_SUBSTITUTE = "Pendulum-v1"  # continuous control that needs no extra


def builtin_names() -> list[str]:
    """Return the names of all built-in studies."""
    return sorted(file.stem for file in LIBRARY.glob("*.yaml"))


def load_builtin(name: str) -> Study:
    """Load a built-in study; where EnvPool is not installed, its environment is replaced by a functional one."""
    names = builtin_names()
    if name not in names:
        hint = did_you_mean(name, names)
        raise RequestError(
            "choice", f"There is no study {name!r}.", f"{hint}Known: {', '.join(names)}; or give a .yaml file."
        )
    study = read_study(str(LIBRARY / f"{name}.yaml"))
    needs_envpool = str(study.fixed.get("env", "")).startswith("envpool:") and find_spec("envpool") is None
    return study.with_env(ENVPOOL_SUBSTITUTE) if needs_envpool else study
