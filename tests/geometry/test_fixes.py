"""A suggested fix removes its finding, whatever the request."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollshape.errors import RequestError
from rollshape.geometry.plan import plan
from rollshape.geometry.request import Request
from rollshape.geometry.rules.fixes import legal_minibatch_counts, suggest_fix

REQUESTS = st.fixed_dictionaries(
    {"algo": st.sampled_from(["ppo", "a2c", "reinforce", "ppo-ewma"])},
    optional={
        "num_envs": st.integers(1, 5_000),
        "num_steps": st.integers(1, 600),
        "total_timesteps": st.integers(10_000, 10**8),
        "episode_length": st.integers(1, 1_000),
        "action_dim": st.integers(1, 40),
        "action_kind": st.sampled_from(["discrete", "continuous"]),
        "host_envs": st.booleans(),
        "num_minibatches": st.integers(1, 64),
    },
)


@settings(max_examples=150, deadline=None)
@given(REQUESTS)
def test_a_fix_removes_the_finding(fields: dict) -> None:
    try:
        result = plan(**fields)
    except RequestError:
        return
    request = Request(**fields)
    warnings = {finding.rule for finding in result.findings if finding.severity != "info"}
    for finding in result.findings:
        changes = suggest_fix(request, result, finding)
        if changes is None:
            continue
        after = plan(**{**fields, **changes})
        assert finding.rule not in {other.rule for other in after.findings}
        assert {other.rule for other in after.findings if other.severity != "info"} <= warnings


@pytest.mark.parametrize(
    ("fields", "rule", "changes"),
    [
        ({"num_envs": 4, "num_steps": 8}, "edge-weight", {"num_steps": 32}),
        ({"num_envs": 64, "num_steps": 32, "total_timesteps": 100_000}, "few-updates", {"total_timesteps": 204_800}),
        ({"algo": "reinforce", "num_envs": 4, "num_steps": 50}, "reinforce-samples", {"num_envs": 20}),
        ({"algo": "reinforce", "num_steps": 50, "episode_length": 500}, "episode-length", {"num_steps": 500}),
        ({"algo": "rrd", "episode_length": 30}, "rrd-sample-length", {"rrd_sample_size": 16}),
        ({"num_envs": 64, "num_steps": 32, "num_minibatches": 2}, "minibatches-per-epoch", {"num_minibatches": 4}),
    ],
)
def test_known_fixes(fields: dict, rule: str, changes: dict) -> None:
    result = plan(**fields)
    [finding] = [finding for finding in result.findings if finding.rule == rule]
    fix = suggest_fix(Request(**fields), result, finding)
    assert fix is not None
    assert fix | changes == fix


def test_legal_counts_divide_the_rollout_in_whole_sequences() -> None:
    result = plan(num_envs=8, num_steps=32, recurrent=True, seq_length=16, world_size=2)
    assert legal_minibatch_counts(result) == (1, 2, 4, 8)
    for count in legal_minibatch_counts(result):
        assert plan(num_envs=8, num_steps=32, recurrent=True, seq_length=16, world_size=2, num_minibatches=count)


@pytest.mark.parametrize("algo", ["a2c", "reinforce"])
def test_a_full_batch_needs_no_divisors(algo: str) -> None:
    assert "awkward-rollout" not in {finding.rule for finding in plan(algo=algo, num_envs=7, num_steps=211).findings}
