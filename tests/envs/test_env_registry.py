"""Functional environments of the user's: registered, given as objects, or refused with one message."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from jax import Array
from test_functional import Counter

import rollshape
from rollshape.envs.objects import env_id
from rollshape.envs.registry import kind, make, register
from rollshape.errors import RequestError

SPEC: dict[str, Any] = {"num_envs": 4, "num_steps": 8, "total_timesteps": 64, "hidden_sizes": (4,), "final_episodes": 4}


def test_a_registered_environment_is_found_by_its_id(tmp_path: Path) -> None:
    register("RegisteredCounter-v0", Counter(end=9, max_steps=6))
    assert kind("RegisteredCounter-v0") == "functional"
    assert make("RegisteredCounter-v0").max_steps == 6
    run = rollshape.train(env="RegisteredCounter-v0", out=tmp_path / "run", **SPEC)
    assert run.status == "done"
    register("RegisteredCounter-v0", Counter)  # again: the last one counts
    assert make("RegisteredCounter-v0", end=5, max_steps=3) == Counter(end=5, max_steps=3)
    with pytest.raises(RequestError, match="cannot be created"):
        make("RegisteredCounter-v0", size=3)


def test_a_functional_environment_can_be_given(tmp_path: Path) -> None:
    run = rollshape.train(env=Counter(end=9, max_steps=6), out=tmp_path / "run", **SPEC)
    assert run.spec.env == "python:Counter"
    assert kind(env_id(Counter)) == "functional"
    assert make("test_functional:Counter", end=9, max_steps=6) == Counter(end=9, max_steps=6)


def test_what_cannot_be_registered_is_one_message() -> None:
    @dataclass
    class Mutable(Counter.__mro__[1]):  # type: ignore[name-defined,misc]
        values: list[int]

        def reset(self, key: Array) -> Any:
            return key, jnp.zeros(1)

        def step(self, key: Array, state: Any, action: Array) -> Any:
            return key, state, action

    for name, env, words in (
        ("CartPole-v1", Counter, "built-in"),
        ("a b", Counter, "not a valid id"),
        ("gymnax:X", Counter, "not a valid id"),
        ("Mine-v0", 3, "not a functional environment"),
        ("Mine-v0", dict, "not a functional environment"),
        ("Mine-v0", Mutable([1]), "not hashable"),
    ):
        with pytest.raises(RequestError, match=words):
            register(name, env)
    register("Wrong-v0", lambda: 3)
    with pytest.raises(RequestError, match="created a int"):
        make("Wrong-v0")
    with pytest.raises(RequestError, match="Did you mean Wrong-v0"):
        make("tabular:Wrong-v1")
