"""The studies that come with Rollshape: study files in `library/`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rollshape.envs.trust import check_module
from rollshape.errors import RequestError, did_you_mean
from rollshape.studies.study import Study
from rollshape.studies.study_file import STUDY_FILES, read_study

LIBRARY = Path(__file__).parent / "library"
ENVPOOL_SUBSTITUTE = "Pendulum-v1"  # continuous control that needs no extra


def builtin_names() -> list[str]:
    """Return the names of all built-in studies."""
    return sorted(file.stem for file in LIBRARY.glob("*.yaml"))


def find_study(source: str, env: str | None = None, seeds: int | None = None, *, no_probes: bool = False) -> Study:
    """Return a built-in study by its name, or that of a file; the options replace parts of it.

    A study file may not make us import a module that is not installed: the user must name it.
    """
    is_file = source.endswith(STUDY_FILES)
    study = read_study(source) if is_file else load_builtin(source)
    if is_file and env is None:
        for points in (study.fixed, *study.points):
            check_module(str(points.get("env", "")), source, f"If you trust this code, add --env {points.get('env')}.")
    return change_study(study, env, seeds, no_probes=no_probes)


def change_study(study: Study, env: str | None, seeds: int | None, *, no_probes: bool) -> Study:
    """Return the study with another environment, number of seeds, or without probes."""
    if env is not None:
        study = study.with_env(env)
    if seeds is not None:
        study = study.with_seeds(seeds)
    return study.without_probes() if no_probes else study


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
