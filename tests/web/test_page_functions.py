"""The functions of the page: the documents of the commands, legal plans for every position of the controls."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.web.commands import MACHINE, run_command, without_flags
from tests.web.random_calls import CONFIGS, random_call, random_plan

from rollshape.geometry.plan import plan
from rollshape.web.api import FUNCTIONS, LONGEST_TEXT, answer


def ask(name: str, /, **values: Any) -> Any:
    return json.loads(answer(name, json.dumps(values)))


def test_the_page_gives_the_documents_of_the_commands(tmp_path: Path) -> None:
    chance = random.Random(0)
    for _ in range(120):  # 1,000 in test_static_page.py
        name, values = random_call(chance)
        document = without_flags(ask(name, **values, machine=MACHINE))
        assert document == run_command(name, values, tmp_path), (name, values)


def test_controls_snap_to_a_legal_plan_and_say_why() -> None:
    view = ask("planner", num_envs=60, num_steps=7, num_minibatches=8, total_timesteps=10**6)
    assert view["plan"]["num_minibatches"] == 7
    assert view["request"]["num_minibatches"] == 7
    assert "does not divide the rollout" in view["snapped"][0]["message"]
    assert view["snapped"][0]["changes"] == {"num_minibatches": 7}
    assert view["legal_minibatches"][:4] == [1, 2, 3, 4]
    assert "7 × 60" in view["svg"]


def test_a_legal_request_is_not_changed() -> None:
    view = ask("planner", num_envs=64, num_steps=32, num_minibatches=4, machine=MACHINE)
    assert view["snapped"] == []
    expected = plan(num_envs=64, num_steps=32, num_minibatches=4).to_dict()
    expected["memory"]["machine_bytes"] = None  # the page compares with the memory that it is asked about
    assert view["plan"] == json.loads(json.dumps(expected))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6))
def test_every_request_of_the_controls_has_a_plan_or_a_reason(seed: int) -> None:
    fields = random_plan(random.Random(seed))
    fields.pop("minibatch_size", None)
    view = ask("planner", **fields, machine=MACHINE, fixes=True)
    if "error" in view:
        assert view["error"]["message"]
    elif view["plan"] is None:
        assert view["snapped"][-1]["message"]
    else:
        assert len(view["fixes"]) == len(view["plan"]["findings"])
        assert "plan" in ask("planner", **view["request"])
        for changes in filter(None, view["fixes"]):
            after = ask("planner", **{**view["request"], **changes})
            assert after["plan"] is not None


def test_a_plan_that_does_not_fit_is_shown_with_sizes_that_do() -> None:
    fields = {"num_envs": 4096, "num_steps": 1024, "obs_shape": [84, 84, 4], "machine": {"memory_bytes": 8 * 10**9}}
    view = ask("planner", **fields)
    assert view["plan"]["num_envs"] == 4096
    assert view["memory_error"]["rule"] == "memory"
    sizes = view["memory_error"]["alternatives"][0]
    assert ask("planner", **{**fields, **sizes})["memory_error"] is None


@pytest.mark.parametrize("text", [config.format(n=8, t=128, m=256, k=4) for config in CONFIGS])
def test_a_config_is_recognized_and_explained(text: str) -> None:
    document = ask("config", text=text, num_envs=8)
    assert document["candidates"][0]["is_readable"]
    assert document["runs"]["plan"]["num_steps"] == 128
    assert document["patch"]["changes"] in ({}, document["patch"]["changes"])


def test_a_config_is_explained_as_its_library_runs_it() -> None:
    """SB3 keeps a minibatch of 96 and a shorter last one; another library's sizes would be wrong here."""
    document = ask("config", text="n_envs: 8\nn_steps: 100\nbatch_size: 96\n")
    assert document["dialect"] == "sb3"
    assert document["runs"]["plan"]["minibatch_size"] == 96
    assert document["runs"]["plan"]["last_minibatch_size"] == 32


def test_a_config_is_repaired_and_rescaled() -> None:
    sizes = "num_actors: 60 # of them\n    horizon_length: 7\n    minibatch_size: 64\n    mini_epochs: 5\n"
    text = f"params:\n  config:\n    {sizes}"
    document = ask("config", text=text)
    assert "-    minibatch_size: 64" in document["patch"]["diff"]
    assert "# of them" in document["text"]
    assert ask("config", text=document["text"])["patch"]["changes"] == {}
    rescaled = ask("rescaled", text=document["text"], dialect=document["dialect"], num_envs=120)
    assert "+    num_actors: 120" in rescaled["diff"]


@pytest.mark.parametrize("target", ["sb3", "rl_games", "cleanrl", "rsl_rl", "rollshape"])
def test_a_plan_is_written_for_a_library(target: str) -> None:
    document = ask("written", num_envs=64, num_steps=32, num_minibatches=4, total_timesteps=10**6, to=target)
    assert document["plan"]["num_envs"] == 64
    again = ask("translate", text=document["text"], to="rollshape", num_envs=64, **{"from": target})
    assert again["config"]["num_steps"] == 32


def test_rrd_is_written_for_its_reference_code_only() -> None:
    assert [entry["name"] for entry in ask("targets", algo="rrd")] == ["rrd"]
    assert ask("targets", algo="sac") == []
    assert "rrd_batch_size: 256" in ask("written", algo="rrd", total_timesteps=10**6, to="rrd")["text"]


HOSTILE = [
    "", " ", "[]", "1", "\x00", "{" * 5_000, "[" * 5_000, "a: &a [*a]", "- " * 1000, "&a [" + "*a," * 9 + "]",
    "!!python/object/apply:os.system [true]", "import os\nos.system('true')\n", "n_envs: 1e400\nn_steps: .nan\n",
    "n_envs: 99999999999999999999999999\nn_steps: 4\n", "n_envs: -5\nn_steps: 0\nbatch_size: 0\n",
    "<script>alert(1)</script>: 4\nn_envs: 4\n", "n_envs: '<img src=x onerror=alert(1)>'\nn_steps: 4\n",
    "\ufeffn_envs: 4", "n_envs: 4\n" * 5_000, "x" * (LONGEST_TEXT + 1), "[a]\nb = 1\n[a]\n", "n_steps: {a: {b: " * 400,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("name", ["config", "patch", "rescaled", "translate"])
def test_hostile_configs_end_in_a_message(name: str, text: str) -> None:
    values = {"config": {}, "patch": {"dialect": "sb3"}, "rescaled": {"dialect": "sb3", "num_envs": 8}}
    document = ask(name, text=text, **values.get(name, {"from": "sb3", "to": "cleanrl"}))
    assert isinstance(document, dict)
    assert "error" in document or name == "config" or "plan" in document or "rescale" in document


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "text", ["", "[]", "nul", '{"a": 1}', '{"num_envs": "x", "text": 3, "to": 4, "dialect": []}', "NaN"]
)
def test_wrong_arguments_end_in_a_message(name: str, text: str) -> None:
    if not (name in ("targets", "dialects", "planner") and text == "{}"):
        document = json.loads(answer(name, text))
        assert set(document) == {"error"} or document.get("plan", 0) is None


def test_an_unknown_function_is_named() -> None:
    assert "Did you mean plan?" in ask("plam")["error"]["fix"]


@pytest.mark.parametrize("machine", [3, {"cores": 0}, {"memory_bytes": "x"}, {"cores": 2.5}])
def test_a_machine_that_is_none(machine: Any) -> None:
    assert ask("plan", machine=machine)["error"]["rule"] == "argument"
