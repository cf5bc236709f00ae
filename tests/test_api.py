"""No call of the public functions, however wrong, ends in a raw TypeError or ValueError, or leaves anything behind."""

import inspect
import random
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rollshape
from hostile import choose, raw_errors
from rollshape.errors import RequestError
from rollshape.geometry.dialects import NAMES
from rollshape.geometry.plan import Plan
from rollshape.geometry.request import Request
from rollshape.probes.request import ProbeRequest, check_request
from rollshape.training.spec import Spec, checked_spec

CALLS = 500  # in the suite; `main` makes as many as wanted
CONFIG = {"n_envs": 8, "n_steps": 128, "batch_size": 64}
SPEC: dict[str, Any] = {"env": "CartPole-v1", "num_envs": 4, "num_steps": 8, "total_timesteps": 64}
KINDS = (
    "plan", "train", "spec", "translate", "fit_config", "probe", "options", "probe_rewards", "load", "study",
    "evaluate", "diagnose", "register", "check_env",
)  # fmt: skip
TRAIN_OPTIONS = ("out", "resume", "track", "keep_checkpoints", "on_row")


class Stop(Exception):
    """Raised before anything is created."""


def stop(_: Plan) -> None:
    raise Stop


def names_of(cls: type) -> list[str]:
    return [field.name for field in fields(cls)]


def hostile_options(source: random.Random, names: list[str]) -> dict[str, Any]:
    chosen = source.sample([*names, "foo", "n_envs"], source.choice((1, 1, 2, 3, 5)))
    return {name: choose(source) for name in chosen}


def train(**options: Any) -> None:
    try:
        rollshape.train(**{**SPEC, **options, "on_plan": stop})
    except Stop:
        return


def hostile_call(source: random.Random) -> Callable[[], Any]:
    """Return a call of one of the public functions with hostile values in some of its arguments."""
    kind = source.choice(KINDS)
    if kind == "plan":
        options = hostile_options(source, names_of(Request))
        position = [choose(source)] if source.random() < 0.1 else []
        return lambda: rollshape.plan(*position, **options)
    if kind in ("train", "spec"):
        options = hostile_options(source, [*names_of(Spec), *(TRAIN_OPTIONS if kind == "train" else ())])
        return lambda: train(**options) if kind == "train" else checked_spec(**options)
    if kind in ("translate", "fit_config"):
        options = hostile_options(source, ["num_envs", "key", "strict", "verbose", "to"])
        values = [source.choice((CONFIG, choose(source))), *(source.choice((*NAMES, choose(source))) for _ in range(2))]
        if kind == "translate":
            return lambda: rollshape.translate(*values, **options)
        return lambda: rollshape.fit_config(*values[:2], **{"verbose": False, **options})
    if kind == "options":
        options = hostile_options(source, names_of(ProbeRequest))
        return lambda: check_request(options, 2048, 0)
    if kind in ("load", "study", "evaluate", "diagnose"):
        return hostile_reading(source, kind)
    if kind in ("register", "check_env"):
        options = hostile_options(source, ["env_kwargs", "steps", "seed", "env_timeout"])
        name = source.choice(("CartPole-v1", choose(source)))
        if kind == "register":
            return lambda: rollshape.register(source.choice(("Hostile-v0", choose(source))), choose(source))
        return lambda: rollshape.check_env(name, **{"steps": -1, **options})
    measure = rollshape.probe if kind == "probe" else rollshape.probe_rewards
    options = hostile_options(source, ["checkpoint", "seed", "draws", "on_progress", "num_batches"])
    return lambda: measure(source.choice(("absent", choose(source))), **options)


def hostile_reading(source: random.Random, kind: str) -> Callable[[], Any]:
    """Return a call of a function that reads runs or studies."""
    path = source.choice(("absent", choose(source)))
    if kind == "load":
        load = source.choice((rollshape.load_run, rollshape.load_runs, rollshape.load_study, rollshape.report))
        return lambda: load(path)
    if kind == "study":
        options = hostile_options(source, ["out", "engine", "jobs", "seeds", "env", "no_probes"])
        study = source.choice(({"grids": choose(source)}, {"seeds": choose(source)}, choose(source)))  # none is legal
        return lambda: rollshape.study(study, **options)
    names = ["checkpoint", "episodes", "seed", "render", "trust", "env", "target"]
    function = rollshape.evaluate if kind == "evaluate" else rollshape.diagnose
    options = hostile_options(source, names)
    return lambda: function(path, **options)


def fuzz(count: int, seed: int) -> list[str]:
    source = random.Random(seed)
    return raw_errors([hostile_call(source) for _ in range(count)])


def test_no_call_is_a_raw_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert fuzz(CALLS, seed=0) == []
    assert list(tmp_path.iterdir()) == []
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "call",
    [
        lambda: rollshape.train(foo=1),
        lambda: rollshape.train(3),
        lambda: rollshape.train(out="", **SPEC),
        lambda: rollshape.train(out="/", **SPEC),
        lambda: rollshape.train(network=3, **SPEC),
        lambda: rollshape.plan(num_envs=np.array([1, 2])),
        lambda: rollshape.plan(1, 2),
        lambda: rollshape.plan(num_envs=10**5000),
        lambda: rollshape.translate(CONFIG, "sb3", to=3),
        lambda: rollshape.translate(CONFIG, "sb3", 3),
        lambda: rollshape.translate(CONFIG, b"sb3", "rl_games"),
        lambda: rollshape.fit_config(CONFIG, None),
        lambda: rollshape.fit_config([1], "sb3"),
        lambda: rollshape.probe(""),
        lambda: rollshape.probe("/"),
        lambda: rollshape.probe(3),
        lambda: rollshape.probe("absent", checkpoint="first"),
        lambda: rollshape.probe_rewards("absent", seed=-1),
        lambda: rollshape.train(**{**SPEC, "env": 3}),
        lambda: rollshape.train(**{**SPEC, "num_env": 3}),
        lambda: rollshape.load_run(),
        lambda: rollshape.load_run("absent", folder=3),
        lambda: rollshape.load_runs("absent"),
        lambda: rollshape.load_study("absent"),
        lambda: rollshape.study("no such study"),
        lambda: rollshape.report("absent"),
        lambda: rollshape.diagnose([3]),
        lambda: rollshape.diagnose("absent", targets=3),
        lambda: rollshape.evaluate("absent", episode=3),
        lambda: rollshape.register("CartPole-v1", 3),
        lambda: rollshape.check_env("NoSuch-v0"),
        lambda: rollshape.check_env("CartPole-v1", step=3),
    ],
)
def test_wrong_calls(call: Callable[[], Any]) -> None:
    with pytest.raises(RequestError) as caught:
        call()
    assert caught.value.fix


def test_numbers_of_numpy_are_numbers() -> None:
    assert rollshape.plan(num_envs=np.int64(16), num_steps=np.uint8(16)) == rollshape.plan(num_envs=16, num_steps=16)
    assert rollshape.fit_config(CONFIG, "sb3", np.int32(8), verbose=False) == CONFIG
    fitted = rollshape.fit_config({"n_envs": np.int64(3), "n_steps": np.int64(43)}, "sb3", verbose=False)
    assert fitted["batch_size"] == 43


def test_every_public_function_checks_its_arguments() -> None:
    functions = [getattr(rollshape, name) for name in rollshape.__all__]
    functions = [function for function in functions if inspect.isfunction(function)]
    assert len(functions) >= 16
    assert all(hasattr(function, "__wrapped__") for function in functions), "use @check_arguments"


def main(count: int, seed: int) -> None:
    """Make many calls by hand: `python -c 'import test_api; test_api.main(60_000, 1)'` in this folder."""
    errors = fuzz(count, seed)
    print(f"{count:,} calls, {len(errors):,} raw errors")
    for line in sorted(set(errors))[:50]:
        print(line)
