import math
import random

import pytest

from rollshape.errors import RequestError
from rollshape.geometry.plan import Plan, plan
from rollshape.geometry.rules import PAGES, Finding, explain
from rollshape.geometry.rules.minibatch import expected_envs
from rollshape.geometry.rules.window import edge_weight


def found(made: Plan, rule: str) -> Finding | None:
    return next((finding for finding in made.findings if finding.rule == rule), None)


def severity(made: Plan, rule: str) -> str | None:
    finding = found(made, rule)
    return finding.severity if finding else None


@pytest.mark.parametrize(("steps", "weight"), [(8, 0.81), (16, 0.65), (32, 0.45), (64, 0.25), (128, 0.13)])
def test_edge_weight_against_the_published_table(steps: int, weight: float) -> None:
    assert edge_weight(steps, 0.99, 0.95) == pytest.approx(weight, abs=0.005)


@pytest.mark.parametrize(("steps", "gamma", "lam"), [(5, 0.9, 0.8), (7, 1.0, 1.0), (3, 0.5, 0.0), (64, 0.99, 0.95)])
def test_edge_weight_against_gae_itself(steps: int, gamma: float, lam: float) -> None:
    """Run GAE on zero rewards and zero values but V = 1 at the edge: the advantages are the coefficients."""
    values = [0.0] * steps + [1.0]
    advantage, advantages = 0.0, []
    for t in reversed(range(steps)):
        advantage = gamma * values[t + 1] - values[t] + gamma * lam * advantage
        advantages.append(advantage)
    assert edge_weight(steps, gamma, lam) == pytest.approx(sum(advantages) / steps)


def test_expected_environments_against_a_simulation() -> None:
    n, t, m = 6, 5, 7
    draw = random.Random(0)
    mean = sum(len({i // t for i in draw.sample(range(n * t), m)}) for _ in range(20_000)) / 20_000
    assert expected_envs(n, t, m) == pytest.approx(mean, abs=0.02)
    assert expected_envs(4, 10, 40) == 4


def test_an_automatic_plan_does_not_nag() -> None:
    for num_envs in (4, 16, 64, 256, 1024, 2048):
        made = plan(num_envs=num_envs, num_steps=16)
        assert {finding.severity for finding in made.findings} <= {"info"}


def test_ranges_warn_about_a_users_own_value() -> None:
    assert severity(plan(num_envs=64, num_steps=32, minibatch_size=8), "minibatch-range") == "warn"
    assert severity(plan(num_envs=64, num_steps=32, minibatch_size=8), "minibatches-per-epoch") == "warn"
    assert severity(plan(num_envs=64, num_steps=32), "minibatch-range") == "info"
    assert found(plan(num_envs=64, num_steps=32, minibatch_size=256), "minibatch-range") is None


def test_action_dim() -> None:
    made = plan(num_envs=4, num_steps=16, minibatch_size=32, action_dim=6)
    finding = found(made, "minibatch-action-dim")
    assert finding is not None
    assert "10 × action_dim = 60" in finding.message
    assert found(plan(num_envs=4, num_steps=16, action_dim=6), "minibatch-action-dim") is None


def test_one_environment() -> None:
    assert severity(plan(num_envs=1, num_steps=2048, minibatch_size=64), "minibatch-envs") == "warn"
    assert found(plan(num_envs=8, num_steps=128, minibatch_size=64), "minibatch-envs") is None


def test_a_prime_rollout_is_named_and_better_shapes_are_offered() -> None:
    finding = found(plan(num_envs=1031, num_steps=1), "awkward-rollout")
    assert finding is not None
    assert "1,031 is prime" in finding.message
    for shape in finding.numbers["shapes"]:
        assert found(plan(**shape), "awkward-rollout") is None


def test_reinforce_and_continuous_samples() -> None:
    assert severity(plan(algo="reinforce", num_envs=4, num_steps=100), "reinforce-samples") == "warn"
    assert found(plan(algo="reinforce", num_envs=10, num_steps=100), "reinforce-samples") is None
    small = plan(num_envs=1, num_steps=128, num_epochs=1, action_kind="continuous")
    assert severity(small, "continuous-samples") == "warn"
    large = plan(num_envs=2048, num_steps=16, num_epochs=1, action_kind="continuous")
    assert severity(large, "continuous-samples") == "info"
    assert found(plan(num_envs=64, num_steps=32, action_kind="continuous"), "continuous-samples") is None


def test_windows() -> None:
    assert severity(plan(num_envs=64, num_steps=4), "edge-weight") == "warn"
    assert severity(plan(num_envs=64, num_steps=16), "edge-weight") == "info"
    assert found(plan(num_envs=64, num_steps=64), "edge-weight") is None
    phase = found(plan(num_envs=64, num_steps=16, episode_length=1000), "episode-length")
    assert phase is not None
    assert phase.numbers["cycle"] == 1000 // math.gcd(1000, 16) == 125
    assert severity(plan(algo="reinforce", num_envs=64, num_steps=16, episode_length=100), "episode-length") == "warn"


def test_advice_is_only_given_where_it_holds() -> None:
    whole = found(plan(num_envs=1, num_steps=2048, total_timesteps=10_000), "few-updates")
    assert whole is not None
    assert "num_envs" not in whole.fix
    endless = found(plan(num_envs=64, num_steps=16, gamma=1.0, gae_lambda=1.0), "edge-weight")
    assert endless is not None
    assert "whole episodes" in endless.fix
    assert found(plan(num_envs=32, num_steps=16), "lr-minibatch") is None  # 64 × 16 has the same minibatch


def test_too_few_updates_for_the_budget() -> None:
    assert severity(plan(num_envs=2048, num_steps=16, total_timesteps=2_000_000), "few-updates") == "warn"
    assert found(plan(num_envs=256, num_steps=16, total_timesteps=2_000_000), "few-updates") is None


def test_learning_rate_follows_the_minibatch_by_the_square_root() -> None:
    grown = plan(num_envs=64, num_steps=32, minibatch_size=256, learning_rate=3e-4, tuned_minibatch_size=64)
    finding = found(grown, "lr-minibatch")
    assert finding is not None
    assert finding.numbers["factor"] == 2
    assert finding.numbers["learning_rate"] == pytest.approx(6e-4)
    only_rollout = plan(num_envs=640, num_steps=32, minibatch_size=64, learning_rate=3e-4, tuned_minibatch_size=64)
    assert found(only_rollout, "lr-minibatch") is None


def test_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    from rollshape.geometry.machine import Machine
    from rollshape.geometry.rules import resources

    monkeypatch.setattr(resources, "machine", lambda: Machine(cores=8, memory_bytes=2**34))
    crowded = found(plan(num_envs=64, num_steps=32, host_envs=True), "envs-cores")
    assert crowded is not None
    assert "share 8 cores" in crowded.message
    idle = found(plan(num_envs=4, num_steps=512, host_envs=True), "envs-cores")
    assert idle is not None
    assert "4 of 8 cores idle" in idle.message
    assert found(plan(num_envs=16, num_steps=128, host_envs=True), "envs-cores") is None
    assert found(plan(num_envs=64, num_steps=32), "envs-cores") is None


def test_every_finding_has_a_page_a_source_a_fix_and_numbers() -> None:
    made = plan(
        num_envs=1, num_steps=3, minibatch_size=2, on_remainder="warn", action_dim=4, action_kind="continuous",
        episode_length=500, total_timesteps=10, host_envs=True, tuned_minibatch_size=64,
    )  # fmt: skip
    assert len(made.findings) >= 8
    for finding in made.findings:
        assert explain(finding.rule).text
        assert finding.source
        assert finding.fix
        assert finding.numbers


def test_pages() -> None:
    for page in PAGES.values():
        assert page.text
        assert page.source
    with pytest.raises(RequestError, match="Unknown rule 'edge-wieght'") as caught:
        explain("edge-wieght")
    assert "edge-weight" in caught.value.fix
