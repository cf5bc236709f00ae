"""Environments given as objects: which id they get, how they are created, and how such a run is opened again."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from toy_envs import LIMIT, Walk, walk

import rollshape
from rollshape.cli import main
from rollshape.envs.access import EnvAccess
from rollshape.envs.objects import env_id, find_factory
from rollshape.envs.pools import make_host
from rollshape.errors import RequestError

SPEC: dict[str, Any] = {"num_envs": 2, "num_steps": 8, "total_timesteps": 64, "hidden_sizes": (4,), "final_episodes": 2}


def local_class() -> type[Walk]:
    class Local(Walk):
        end = 3

    return Local


def test_ids() -> None:
    assert env_id("CartPole-v1") == "CartPole-v1"
    assert env_id(Walk) == "toy_envs:Walk"
    assert env_id(walk) == "toy_envs:walk"
    assert env_id(local_class()) == "python:Local"
    assert env_id(lambda: walk()) == "python:lambda"
    assert env_id(Walk()) == "python:Walk"
    for wrong in (3, None, object(), gymnasium.make_vec("CartPole-v1", 1)):
        with pytest.raises(RequestError, match="env must be"):
            env_id(wrong)
    with pytest.raises(RequestError, match="trained on python:Local, not on toy_envs:Walk"):
        env_id(Walk, "python:Local")


def test_an_instance_is_copied_for_every_environment() -> None:
    instance = TimeLimit(Walk(), LIMIT)
    instance.reset(seed=1)
    instance.unwrapped.end = 4  # type: ignore[attr-defined]
    pool = make_host(env_id(instance), 3)
    assert pool.max_steps == LIMIT
    factory = find_factory(env_id(instance))
    assert factory is not None
    first, second = factory(), factory()
    assert first is not second
    assert first.unwrapped.end == 4
    pool.reset(0)
    pool.step(pool.clip_action(np.ones(3, int)))
    assert instance.unwrapped.steps == 0  # type: ignore[attr-defined]
    with pytest.raises(RequestError, match="takes no options"):
        make_host(env_id(instance), 1, size=3)


def test_what_cannot_be_created_is_one_message() -> None:
    class Lock(Walk):
        def __deepcopy__(self, _: Any) -> Any:
            raise TypeError("no copies")

    for env, words in (
        (lambda: 3, "created a int"),
        (Lock(), "cannot be copied"),
        (lambda: rollshape.FunctionalEnv, "created a"),
        (local_class, "created a type"),
    ):
        with pytest.raises(RequestError, match=words):
            make_host(env_id(env), 1)
    with pytest.raises(RequestError, match="only Python code can provide") as caught:
        make_host("python:Nothing", 1)
    assert "env=" in caught.value.fix


@pytest.mark.parametrize("mode", ["sync", "async", "isolated"])
def test_other_processes_get_the_object(mode: str) -> None:
    options = {"vectorization_mode": "async"} if mode == "async" else {}
    pool = make_host(env_id(local_class()), 2, EnvAccess(isolate=mode == "isolated"), **options)
    try:
        pool.reset(0)
        ends = [pool.step(np.full(2, 3)).terminated.all() for _ in range(1)]
        assert ends == [True]  # at 3, which is the local class's
    finally:
        pool.close()


def test_a_class_is_found_by_its_name_in_a_subprocess() -> None:
    pool = make_host("toy_envs:Walk", 2, vectorization_mode="async")
    try:
        assert pool.reset(0).shape == (2, 2)
    finally:
        pool.close()


def test_a_run_of_an_object_is_opened_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    local, out = local_class(), tmp_path / "run"
    run = rollshape.train(env=local, out=out, **SPEC)
    document = json.loads((out / "run.json").read_text())
    assert document["spec"]["env"] == "python:Local"
    assert "resume=True" in document["env_object"]
    assert rollshape.train(env=local, out=out, resume=True, **SPEC).final_return == run.final_return
    assert rollshape.evaluate(run, env=local, episodes=2).mean == run.final_return

    find_factory("python:Local")  # is known in this process; another one does not have it
    from rollshape.envs import objects

    del objects._given["python:Local"]
    assert main(["eval", str(out)]) == 2
    message = capsys.readouterr().err
    assert "only Python code can provide" in message
    assert "env=" in message
    assert rollshape.evaluate(out, env=local, episodes=2).mean == run.final_return
    with pytest.raises(RequestError, match="trained on python:Local"):
        rollshape.probe(out, env=Walk)


def test_a_run_of_an_importable_class_says_where_it_is(tmp_path: Path) -> None:
    run = rollshape.train(env=Walk, out=tmp_path / "run", **SPEC)
    assert run.spec.env == "toy_envs:Walk"
    assert json.loads((run.path / "run.json").read_text())["env_object"] is None
    again = rollshape.train(env="toy_envs:Walk", out=tmp_path / "again", **SPEC)
    assert again.final_return == run.final_return
