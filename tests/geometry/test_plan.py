"""Any request gives a legal plan, or a message with a legal alternative."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollshape
from rollshape.errors import RequestError
from rollshape.geometry.machine import Machine
from rollshape.geometry.plan import Plan, plan
from rollshape.geometry.rules import PAGES

counts = st.one_of(st.integers(1, 64), st.integers(1, 5_000), st.sampled_from([1, 2, 1031, 2**20, 2**40]))
requests = st.fixed_dictionaries(
    {},
    optional={
        "algo": st.sampled_from(["ppo", "a2c", "reinforce"]),
        "num_envs": counts,
        "num_steps": counts,
        "rollout_size": counts,
        "minibatch_size": counts,
        "num_minibatches": counts,
        "num_epochs": st.integers(1, 20),
        "total_timesteps": st.integers(1, 2**53),
        "on_remainder": st.sampled_from(["error", "warn", "fix"]),
    },
)


def assert_legal(made: Plan) -> None:
    assert Plan.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    assert made.rollout_size == made.num_envs * made.num_steps
    assert made.num_minibatches * made.minibatch_size == made.rollout_size - made.dropped
    assert made.gradient_steps_per_update == made.num_epochs * made.num_minibatches
    if made.num_updates is not None and made.total_timesteps is not None:
        assert made.num_updates >= 1
        assert made.actual_timesteps == made.num_updates * made.rollout_size <= made.total_timesteps
        assert made.total_timesteps - made.actual_timesteps < made.rollout_size
        assert made.gradient_steps == made.num_updates * made.num_epochs * made.num_minibatches
    json.dumps(made.to_dict(), allow_nan=False)


@settings(max_examples=3_000, deadline=None)
@given(requests)
def test_every_request_is_planned_or_answered(request: dict[str, Any]) -> None:
    try:
        made = plan(**request)
    except RequestError as error:
        assert error.rule in PAGES
        assert error.fix
        if error.rule not in ("contradiction", "memory"):
            assert error.alternatives
        for alternative in error.alternatives:
            assert_alternative({**request, **alternative}, error.rule)
        return
    assert_legal(made)
    if request.get("on_remainder") != "warn":
        assert made.dropped == 0
    if request.get("on_remainder", "error") == "error":
        for name in set(request) - {"algo", "on_remainder"}:
            assert getattr(made, name) == request[name], "a user's own value always wins"


def assert_alternative(request: dict[str, Any], answered: str) -> None:
    """What a message offers, merged into the request, must work; or else only the next thing is wrong with it."""
    try:
        assert_legal(plan(**request))
    except RequestError as error:
        later = (
            "contradiction",
            "rollout-split",
            "full-batch",
            "divisibility",
            "memory",
            "zero-updates",
            "whole-number",
        )
        if answered not in ("whole-number", "contradiction"):  # there may be a second of these
            assert later.index(error.rule) > later.index(answered)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 5))
def test_every_sample_is_used_once_an_epoch(num_envs: int, num_steps: int, epochs: int) -> None:
    made = plan(num_envs=num_envs, num_steps=num_steps, num_epochs=epochs)
    shuffle = random.Random(num_envs)
    for _ in range(epochs):
        order = shuffle.sample(range(made.rollout_size), made.rollout_size)
        used = [sample for start, stop in made.split.bounds() for sample in order[start:stop]]
        assert sorted(used) == list(range(made.rollout_size))


def test_two_of_three_sizes_give_the_third() -> None:
    assert plan(num_envs=8, rollout_size=1024).num_steps == 128
    assert plan(num_steps=128, rollout_size=1024).num_envs == 8
    assert plan(num_envs=8, minibatch_size=64, num_minibatches=16).num_steps == 128


@pytest.mark.parametrize(
    ("request_", "shape"),
    [
        ({}, (64, 32)),
        ({"num_envs": 1}, (1, 2048)),
        ({"num_envs": 2048}, (2048, 16)),
        ({"num_steps": 128}, (16, 128)),
        ({"num_steps": 5000}, (8, 5000)),
        ({"rollout_size": 2048}, (64, 32)),
        ({"num_envs": 64, "minibatch_size": 100}, (64, 50)),  # T is the next multiple that 100 divides
    ],
)
def test_what_is_not_asked_for_is_chosen(request_: dict[str, int], shape: tuple[int, int]) -> None:
    made = plan(**request_)
    assert (made.num_envs, made.num_steps) == shape
    assert set(made.chosen) >= {"num_envs", "num_steps"} - set(request_) - (
        {"num_steps"} if "rollout_size" in request_ else set()
    )


def test_contradictions_are_named() -> None:
    with pytest.raises(RequestError, match="64 × 32 = 2,048, but rollout_size = 1,000") as caught:
        plan(num_envs=64, num_steps=32, rollout_size=1000)
    assert caught.value.rule == "contradiction"
    with pytest.raises(RequestError, match="64 × 4 = 256, but the rollout has 2,048"):
        plan(num_envs=64, num_steps=32, minibatch_size=64, num_minibatches=4)
    with pytest.raises(RequestError, match="uses each rollout once"):
        plan(algo="a2c", num_epochs=4)


def test_remainder_modes() -> None:
    with pytest.raises(RequestError, match="6 samples are left over") as caught:
        plan(num_envs=10, num_steps=103, minibatch_size=64)
    assert {"num_envs": 10, "num_steps": 103, "minibatch_size": 103} in caught.value.alternatives
    warned = plan(num_envs=10, num_steps=103, minibatch_size=64, on_remainder="warn")
    assert (warned.num_minibatches, warned.dropped) == (16, 6)
    finding = next(finding for finding in warned.findings if finding.rule == "remainder")
    assert "omits 6" in finding.message
    assert finding.severity == "warn"
    fixed = plan(num_envs=10, num_steps=103, minibatch_size=64, on_remainder="fix")
    assert (fixed.minibatch_size, fixed.num_minibatches) == (103, 10)
    assert fixed.repaired == ("minibatch_size 64 → minibatch_size 103, the nearest divisor of 1,030: 10 minibatches",)


def test_fix_changes_the_shape_where_the_minibatch_would_change_too_much() -> None:
    fixed = plan(num_envs=1031, num_steps=1, minibatch_size=256, on_remainder="fix")
    assert (fixed.num_envs, fixed.num_steps, fixed.minibatch_size) == (1024, 1, 256)
    assert "1,031 × 1 = 1,031 → 1,024 × 1 = 1,024" in fixed.repaired[0]


def test_warn_with_a_number_of_minibatches_keeps_the_number() -> None:
    made = plan(num_envs=5, num_steps=3, num_minibatches=4, on_remainder="warn")
    assert (made.minibatch_size, made.num_minibatches, made.dropped) == (3, 4, 3)


def test_alternatives_agree_with_everything_that_was_asked() -> None:
    with pytest.raises(RequestError, match=r"minibatch_size × num_minibatches = 256 is not a multiple") as caught:
        plan(num_envs=3, minibatch_size=64, num_minibatches=4)
    for alternative in caught.value.alternatives:
        assert plan(num_envs=3, **{k: v for k, v in alternative.items() if k != "num_envs"}).minibatch_size == 64
    with pytest.raises(RequestError, match="does not divide") as caught:
        plan(num_envs=1031, num_steps=1, num_minibatches=4)
    assert {"num_envs": 1032, "num_steps": 1, "num_minibatches": 4} in [
        {"num_minibatches": 4, **alternative} for alternative in caught.value.alternatives
    ]


def test_where_a_minibatch_came_from() -> None:
    assert plan(num_envs=64, num_steps=32).minibatch_source == "auto"
    assert plan(algo="a2c", num_envs=64, num_steps=5).minibatch_source == "auto"
    assert plan(num_envs=64, num_steps=32, minibatch_size=64).minibatch_source == "user"
    assert plan(num_envs=10, num_steps=103, minibatch_size=64, on_remainder="fix").minibatch_source == "fixed"


def test_rrds_sizes_contradict_ppo() -> None:
    with pytest.raises(RequestError, match="belongs to RRD"):
        plan(preset="rrd-image")


def test_budget() -> None:
    made = plan(num_envs=64, num_steps=32, total_timesteps=500_000, num_epochs=3)
    assert made.num_updates == 244
    assert made.actual_timesteps == 499_712
    assert made.gradient_steps == 244 * 3 * 4
    assert made.sample_reuse == 3
    with pytest.raises(RequestError, match=r"less than one rollout of 2,048") as caught:
        plan(num_envs=64, num_steps=32, total_timesteps=2_047)
    assert caught.value.alternatives == [{"total_timesteps": 2_048}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_envs", 0), ("num_envs", -4), ("num_envs", 2.5), ("num_envs", float("nan")), ("num_envs", float("inf")),
        ("num_envs", "16"), ("num_envs", True), ("num_envs", 10**30), ("minibatch_size", 0), ("gamma", 1.5),
        ("gamma", float("nan")), ("learning_rate", 0), ("algo", "dqn"), ("obs_dtype", "float"), ("obs_shape", (0, 3)),
        ("on_remainder", "ignore"),
    ],
)  # fmt: skip
def test_bad_values_are_named(name: str, value: Any) -> None:
    request = {name: value} | ({"obs_shape": (4,)} if name == "obs_dtype" else {})
    with pytest.raises(RequestError) as caught:
        plan(**request)
    assert name in caught.value.message
    assert caught.value.fix


def test_a_plan_is_frozen_and_whole_floats_are_whole_numbers() -> None:
    made = plan(num_envs=16.0, num_steps=16)
    assert made.num_envs == 16
    assert isinstance(made.num_envs, int)
    with pytest.raises(AttributeError):
        made.num_envs = 2  # type: ignore[misc]
    assert replace(made, num_envs=2).num_envs == 2


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"algo": "rrd", "total_timesteps": 100_000, "episode_length": 50},
        {"algo": "rrd", "rrd_batch_size": 300, "on_remainder": "fix", "obs_shape": (84, 84, 4), "buffer_size": 1000},
        {"algo": "sac", "num_envs": 4, "total_timesteps": 50_000},
        {"num_envs": 1031, "num_steps": 1, "total_timesteps": 5_000, "obs_shape": (4,), "env_bytes": 1_000},
        {"num_envs": 10, "num_steps": 103, "minibatch_size": 64, "on_remainder": "warn"},
    ],
)
def test_from_dict_reads_what_to_dict_wrote(request_: dict[str, Any]) -> None:
    made = plan(**request_)
    document = json.loads(json.dumps(made.to_dict()))
    again = Plan.from_dict(document)
    assert again == made
    assert again.to_dict() == made.to_dict()
    assert again.memory is not None
    assert (again.replay is None) == (request_.get("algo") not in ("rrd", "sac"))
    assert Plan.from_dict(document | {"diagram": "…"}) == made


def test_a_new_algorithm_needs_only_its_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    from rollshape.geometry import algorithms
    from rollshape.geometry.fields import field_table
    from rollshape.geometry.request import Request

    table = field_table(Request)
    monkeypatch.setitem(algorithms.RULES, "new", algorithms.AlgorithmRules(default_epochs=3))  # type: ignore[arg-type]
    monkeypatch.setitem(table, "algo", table["algo"]._replace(words=("new",)))  # which a longer Literal has by itself
    made = plan(algo="new", num_envs=64, num_steps=32, minibatch_size=8)
    assert (made.algo, made.num_epochs) == ("new", 3)
    assert "minibatch-range" in [finding.rule for finding in made.findings]


def test_every_algorithm_has_rules() -> None:
    from rollshape.geometry.algorithms import ALGORITHMS, RULES

    assert set(ALGORITHMS) == set(RULES)
    for algo in ALGORITHMS:
        assert plan(algo=algo).algo == algo


def test_the_public_name_is_the_same_function() -> None:
    assert rollshape.plan is plan


LARGE = st.one_of(
    st.integers(2**40 - 3, 2**40 + 3), st.integers(2**38, 2**41), st.integers(1, 100), st.integers(2**20, 2**22)
)
SIZES = ("num_envs", "num_steps", "rollout_size", "minibatch_size", "num_minibatches")
REPLAY = ("num_envs", "steps_per_iteration", "rrd_batch_size", "rrd_sample_size", "learning_starts", "buffer_size")


@settings(max_examples=500, deadline=None)
@given(
    st.one_of(
        st.fixed_dictionaries({}, optional=dict.fromkeys(SIZES, LARGE)),
        st.fixed_dictionaries({"algo": st.just("rrd")}, optional=dict.fromkeys((*REPLAY, "total_timesteps"), LARGE)),
    ),
    st.randoms(use_true_random=False),
)
def test_suggestions_lead_to_a_legal_plan_at_any_size(request: dict[str, Any], source: random.Random) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rollshape.geometry.memory.machine", lambda: Machine(2, 2**200))
        for _ in range(10):
            try:
                made = plan(**request)
            except RequestError as error:
                assert error.alternatives, error.message
                request = {**request, **source.choice(error.alternatives)}
            else:
                assert made.rollout_size <= 2**40
                return
    pytest.fail("the suggestions go around in circles")


def test_suggestions_are_exact_and_within_the_limits() -> None:
    with pytest.raises(RequestError, match="With 32 steps use at most 34,359,738,368 environments") as caught:
        plan(num_envs=2 * 10**12, num_steps=32)
    assert caught.value.alternatives == [{"num_envs": 2**35, "num_steps": 32}]
    with pytest.raises(RequestError) as caught:
        plan(rollout_size=2**40, num_envs=3)
    assert caught.value.alternatives == [{"num_envs": 3, "num_steps": (2**40 - 1) // 3, "rollout_size": 2**40 - 1}]
    with pytest.raises(RequestError, match="exceeds the maximum"):
        plan(minibatch_size=1_099_511_627_689, num_minibatches=1_099_511_627_689)  # a prime: its square has no factors
